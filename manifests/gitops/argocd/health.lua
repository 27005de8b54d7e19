-- Health of berth.dev resources for Argo CD: resource.customizations.health.berth.dev_Slot in the ConfigMap argocd-cm, and the
-- same for Model, Upstream and SlotGroup. Only a status of the present generation counts.
local status = obj.status
if status == nil or status.conditions == nil then
  return { status = "Progressing", message = "the operator has not said anything yet" }
end
if status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "the operator has not seen this generation yet" }
end
local found = {}
for _, condition in ipairs(status.conditions) do
  found[condition.type] = condition
end
local function is(name)
  return found[name] ~= nil and found[name].status == "True"
end
local function said(name)
  return found[name] and (found[name].message or found[name].reason) or ""
end
if is("Stalled") then
  return { status = "Degraded", message = said("Stalled") }
end
if is("Ready") then
  -- Ready as well, and not Suspended: `argocd app wait --health` would wait for ever.
  if obj.spec ~= nil and obj.spec.enabled == false then
    return { status = "Healthy", message = "paused by spec.enabled" }
  end
  return { status = "Healthy", message = said("Ready") }
end
return { status = "Progressing", message = said("Reconciling") ~= "" and said("Reconciling") or said("Ready") }
