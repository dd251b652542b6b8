from agents.tools import ToolFailed


class DeviceFailed(ToolFailed):
    """No device can do this now."""

    code = "device_failed"


class DeviceOffline(DeviceFailed):
    """The device is not connected."""

    code = "device_offline"
