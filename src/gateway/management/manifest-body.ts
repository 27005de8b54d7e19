import { labelsSchema } from "../../api/management/parts.ts";
import { modelRules, modelSpecSchema } from "../../api/model.ts";
import { apiVersion, slotNameSchema, type Kind } from "../../api/names.ts";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest, problemsOf, type Problem } from "../../api/problems.ts";
import { completeSlot, slotRules, slotSpecSchema } from "../../api/slot.ts";
import { slotGroupRules, slotGroupSpecSchema } from "../../api/slot-group.ts";
import { upstreamRules, upstreamSpecSchema } from "../../api/upstream.ts";
import { isRecord } from "../../lib/record.ts";

export interface WrittenManifest {
  readonly name: string | undefined;
  /** The client's own fields, without defaults. */
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>> | undefined;
}

/** Throws ApiError `dispatch.invalid_request` for a text that is no name of a slot, a group or an upstream. */
export function checkName(name: string): void {
  const { error } = slotNameSchema.safeParse(name);
  if (error !== undefined)
    throw invalidRequest([{ path: ["name"], message: error.issues[0]?.message ?? "is no name" }]);
}

/**
 * A whole manifest (`apiVersion`, `kind`, `metadata`, `spec`) or a flat spec with `name` beside its fields. Throws
 * ApiError `config.invalid` naming the field.
 */
export function readManifest(
  kind: Kind,
  body: Readonly<Record<string, unknown>>,
  name: string | undefined,
): WrittenManifest {
  const isManifest = "spec" in body && ("kind" in body || "apiVersion" in body || "metadata" in body);
  const problems: Problem[] = [];
  let spec: Readonly<Record<string, unknown>>;
  let ownName = name;
  let labels: Record<string, string> | undefined;
  if (isManifest) {
    if (body["apiVersion"] !== undefined && body["apiVersion"] !== apiVersion)
      problems.push({ path: ["apiVersion"], message: `must be ${apiVersion}` });
    if (body["kind"] !== undefined && body["kind"] !== kind)
      problems.push({ path: ["kind"], message: `must be ${kind}` });
    const known = ["apiVersion", "kind", "metadata", "spec", "status"];
    for (const key of Object.keys(body))
      if (!known.includes(key)) problems.push({ path: [key], message: "unknown key" });
    const metadata = recordAt(body, "metadata", problems);
    for (const key of Object.keys(metadata))
      if (key !== "name" && key !== "labels") problems.push({ path: ["metadata", key], message: "cannot be set here" });
    if (typeof metadata["name"] === "string") ownName ??= metadata["name"];
    labels = labelsIn(metadata["labels"], ["metadata", "labels"], problems);
    spec = recordAt(body, "spec", problems);
    if (name !== undefined && metadata["name"] !== undefined && metadata["name"] !== name)
      problems.push({ path: ["metadata", "name"], message: `must be ${name}, as in the path` });
  } else {
    const { name: given, labels: givenLabels, ...rest } = body;
    labels = labelsIn(givenLabels, ["labels"], problems);
    if (given !== undefined && typeof given !== "string") problems.push({ path: ["name"], message: "must be a text" });
    if (typeof given === "string") ownName ??= given;
    spec = rest;
    if (name !== undefined && given !== undefined && given !== name)
      problems.push({ path: ["name"], message: `must be ${name}, as in the path` });
  }
  problems.push(
    ...specProblems(kind, ownName ?? "", spec).map((problem) => ({
      ...problem,
      path: isManifest ? ["spec", ...problem.path] : problem.path,
    })),
  );
  const [first, ...more] = problems;
  if (first === undefined) return { name: ownName, spec, labels };
  throw new ApiError("config.invalid", {
    message: `${first.path.join(".") || "the manifest"}: ${first.message}`,
    details: { path: first.path, message: first.message, ...(more.length === 0 ? {} : { more: more.slice(0, 20) }) },
  });
}

function specProblems(kind: Kind, name: string, spec: Readonly<Record<string, unknown>>): Problem[] {
  switch (kind) {
    case "Slot": {
      const parsed = slotSpecSchema.safeParse(spec);
      return parsed.success
        ? slotRules(name, completeSlot(name, parsed.data))
        : problemsOf(parsed.error, slotSpecSchema);
    }
    case "Model": {
      const parsed = modelSpecSchema.safeParse(spec);
      return parsed.success ? modelRules(parsed.data) : problemsOf(parsed.error, modelSpecSchema);
    }
    case "Upstream": {
      const parsed = upstreamSpecSchema.safeParse(spec);
      return parsed.success ? upstreamRules(parsed.data) : problemsOf(parsed.error, upstreamSpecSchema);
    }
    case "SlotGroup": {
      const parsed = slotGroupSpecSchema.safeParse(spec);
      return parsed.success ? slotGroupRules(parsed.data) : problemsOf(parsed.error, slotGroupSpecSchema);
    }
    default:
      return kind satisfies never;
  }
}

function recordAt(
  body: Readonly<Record<string, unknown>>,
  key: string,
  problems: Problem[],
): Readonly<Record<string, unknown>> {
  const value = body[key] ?? {};
  if (isRecord(value)) return value;
  problems.push({ path: [key], message: "must be a map of fields" });
  return {};
}

function labelsIn(value: unknown, path: readonly string[], problems: Problem[]): Record<string, string> | undefined {
  if (value === undefined) return undefined;
  const parsed = labelsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  problems.push({ path: [...path], message: "must be a map of texts" });
  return undefined;
}
