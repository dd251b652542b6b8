from .call import DeviceCall, Notice
from .device import Device, DeviceCredential, OfferedTool, Pairing, silence_allowed
from .record import Record, RecordChange

__all__ = [
    "Device",
    "DeviceCall",
    "DeviceCredential",
    "Notice",
    "OfferedTool",
    "Pairing",
    "Record",
    "RecordChange",
    "silence_allowed",
]
