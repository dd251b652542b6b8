"""Tool calls: checked by policy, recorded, executed, settled, approved."""
