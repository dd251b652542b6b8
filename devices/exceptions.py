from agents.tools import ToolFailed


class DeviceFailed(ToolFailed):
    """No device can carry out the call now."""

    code = "device_failed"


class DeviceOffline(DeviceFailed):
    """The device is not connected."""

    code = "device_offline"
