-- Health of plimsoll.dev/PlacementProposal for Argo CD. The operator makes it; it waits for a person until somebody
-- answers it with a PlacementApproval, or until the operator withdraws it.

local labels = obj.metadata.labels or {}
local state = labels["plimsoll.dev/state"]

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "The proposal is being withdrawn" }
end
if state == "Approved" or state == "Rejected" then
  return { status = "Healthy", message = state .. ": " .. (obj.summary or "") }
end
return { status = "Suspended", message = "Waits for an approval until " .. (obj.expiresAt or "its end") .. ": " .. (obj.summary or "") }
