from .call import DeviceCall, Notice
from .device import Device, DeviceCredential, OfferedTool, Pairing
from .record import Record

__all__ = ["Device", "DeviceCall", "DeviceCredential", "Notice", "OfferedTool", "Pairing", "Record"]
