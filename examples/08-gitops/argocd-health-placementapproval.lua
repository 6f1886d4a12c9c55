-- Health of plimsoll.dev/PlacementApproval for Argo CD: what became of a person's answer to a proposal or a finding.

local status = obj.status or {}
local state = status.state
local message = status.message or ""

if state == "CarriedOut" or state == "Rejected" or state == "Acknowledged" then
  return { status = "Healthy", message = message }
end
if state == "Stale" or state == "Expired" or state == "Refused" then
  return { status = "Degraded", message = message }
end
if state == "Waiting" then
  return { status = "Progressing", message = message }
end
return { status = "Progressing", message = "The operator has not seen this approval yet" }
