import { isRecord } from "../../lib/record.ts";

/**
 * The key by which Kubernetes merges the elements of a list of a Pod, by the list's name (`patchMergeKey` in
 * https://github.com/kubernetes/api/blob/master/core/v1/types.go). Every other list is replaced whole.
 */
const mergeKeys: Readonly<Record<string, string>> = {
  containers: "name",
  initContainers: "name",
  env: "name",
  volumes: "name",
  volumeMounts: "mountPath",
  volumeDevices: "devicePath",
  ports: "containerPort",
  imagePullSecrets: "name",
  hostAliases: "ip",
  resourceClaims: "name",
  claims: "name",
  topologySpreadConstraints: "topologyKey",
  schedulingGates: "name",
};

/**
 * A strategic merge: maps are merged, null removes a field, the lists above are merged element by element, and
 * `$patch: delete` or `replace` in an element or map does what `kubectl patch` does: `delete` leaves a map empty.
 */
export function strategicMerge(base: unknown, patch: unknown, field = ""): unknown {
  if (Array.isArray(patch)) return mergedLists(Array.isArray(base) ? base : [], patch, field);
  if (!isRecord(patch)) return patch;
  const { $patch: directive, ...rest } = patch;
  if (directive === "delete") return {};
  if (directive === "replace" || !isRecord(base)) return withoutNulls(rest);
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(rest)) {
    if (value === null) delete merged[key];
    else merged[key] = strategicMerge(merged[key], value, key);
  }
  return merged;
}

function mergedLists(base: readonly unknown[], patch: readonly unknown[], field: string): unknown {
  const key = mergeKeys[field];
  if (key === undefined) return patch.map((element) => (isRecord(element) ? withoutNulls(element) : element));
  const isReplaced = patch.some((element) => isRecord(element) && element["$patch"] === "replace");
  const merged = isReplaced ? [] : [...base];
  for (const element of patch) {
    if (!isRecord(element) || element[key] === undefined) {
      // The API server refuses an element without its key, and names the key. A directive alone is no element.
      if (!isRecord(element) || element["$patch"] === undefined) merged.push(element);
      continue;
    }
    const id = element[key];
    const at = merged.findIndex((known) => isRecord(known) && known[key] === id);
    if (element["$patch"] === "delete") {
      if (at !== -1) merged.splice(at, 1);
    } else if (at === -1) merged.push(strategicMerge(undefined, element));
    else merged[at] = strategicMerge(merged[at], element);
  }
  return merged;
}

function withoutNulls(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(map).flatMap(([key, value]) =>
      value === null ? [] : [[key, strategicMerge(undefined, value, key)]],
    ),
  );
}
