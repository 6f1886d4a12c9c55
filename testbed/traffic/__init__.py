"""Users of a Service: requests at a rate that can be changed, sent to its ready pods, and never sent twice."""
