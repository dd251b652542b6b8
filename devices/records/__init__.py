"""Tasks, notes, projects and timelines kept on the server: storage, the owner's decisions, REST."""
