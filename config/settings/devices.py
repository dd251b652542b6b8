"""Time limits of devices."""

from config.settings.environment import env

# seconds between heartbeats; a device is offline after two missed ones
DEVICE_HEARTBEAT_S = env.float("MUSTER_DEVICE_HEARTBEAT", default=15.0)
DEVICE_WAIT_S = env.float("MUSTER_DEVICE_WAIT", default=86_400.0)  # seconds that a device has to answer a call
