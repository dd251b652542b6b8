"""The pages: server-rendered views, the waterfall and the chain pictures."""
