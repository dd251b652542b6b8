"""What starts runs besides people: schedules, triggers, webhooks in and out, devices."""
