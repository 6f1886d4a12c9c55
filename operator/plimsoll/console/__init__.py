"""The console: pages for people who review placements. Nothing else imports it."""
