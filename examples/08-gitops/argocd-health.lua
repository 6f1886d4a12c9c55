-- Health of plimsoll.dev/InferenceDeployment for Argo CD. The status follows kstatus: observedGeneration, Ready,
-- and the abnormal-true conditions Reconciling and Stalled.

local function condition(kind)
  local conditions = obj.status ~= nil and obj.status.conditions or {}
  for _, each in ipairs(conditions) do
    if each.type == kind then
      return each
    end
  end
  return nil
end

local function health(status, message)
  return { status = status, message = message or "" }
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "The object is being deleted")
end

local seen = obj.status ~= nil and obj.status.observedGeneration or nil
if seen == nil then
  return health("Progressing", "The operator has not seen this object yet")
end
if seen ~= obj.metadata.generation then
  return health("Progressing", "The operator has not seen the latest change yet")
end

local stalled = condition("Stalled")
if stalled ~= nil and stalled.status == "True" then
  return health("Degraded", stalled.message)
end

local ready = condition("Ready")
if obj.spec ~= nil and obj.spec.suspend == true then
  return health("Suspended", ready ~= nil and ready.message or "")
end

local reconciling = condition("Reconciling")
if reconciling ~= nil and reconciling.status == "True" then
  return health("Progressing", reconciling.message)
end

if ready == nil then
  return health("Progressing", "The operator has not judged this object yet")
end
if ready.status == "True" then
  return health("Healthy", ready.message)
end
return health("Progressing", ready.message)
