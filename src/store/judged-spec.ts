import { isDeepStrictEqual } from "node:util";
import { modelRules, modelSpecSchema } from "../api/model.ts";
import type { Kind } from "../api/names.ts";
import { problemsOf } from "../api/problems.ts";
import {
  completeSlot,
  slotRules,
  slotSpecSchema,
  unconfiguredSlot,
  type FieldProblem,
  type SlotSpec,
} from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import { slotGroupRules, slotGroupSpecSchema } from "../api/slot-group.ts";
import { upstreamRules, upstreamSpecSchema } from "../api/upstream.ts";
import { canonicalJson, sha256 } from "../lib/canonical.ts";
import type { SpecByKind } from "./store.ts";

const schemas = {
  Slot: slotSpecSchema,
  Model: modelSpecSchema,
  Upstream: upstreamSpecSchema,
  SlotGroup: slotGroupSpecSchema,
} as const;

/** A spec that a person wrote, as every store judges it. */
export type JudgedSpec =
  /** The spec has not the form of its kind. */
  | { readonly isWellFormed: false; readonly problems: readonly FieldProblem[] }
  /** Complete; with problems where the rules between its fields do not hold. */
  | {
      readonly isWellFormed: true;
      readonly spec: SpecByKind[Kind];
      /** Of the canonical spec: the same in every store. */
      readonly specHash: string;
      readonly problems: readonly FieldProblem[];
    };

/**
 * The last valid spec of a published slot, with its hash; undefined where its manifest was never valid, and the spec of a
 * slot that is not set up stands in for it.
 */
export function lastSpecOf({
  name,
  spec,
  specHash,
}: Pick<PublishedSlot, "name" | "spec" | "specHash">):
  { readonly spec: SlotSpec; readonly specHash: string } | undefined {
  const last = completeSlot(name, spec);
  const standIn = unconfiguredSlot(name);
  const isStandIn = isDeepStrictEqual(last, standIn) && specHash !== sha256(canonicalJson(standIn));
  return isStandIn ? undefined : { spec: last, specHash };
}

/** The message about an invalid slot name. */
export function notASlotName(name: string): string {
  return `"${name.slice(0, 64)}" is not a slot name: 1 to 32 lower-case letters, digits and dashes`;
}

/** `spell`: how the person writes a field's name. */
export function judgeSpec(
  kind: Kind,
  name: string,
  spec: unknown,
  spell: (key: string) => string = (key) => key,
): JudgedSpec {
  const schema = schemas[kind];
  const result = schema.safeParse(spec);
  if (!result.success) return { isWellFormed: false, problems: problemsOf(result.error, schema, spell) };
  const complete = completed(kind, name, result.data);
  return { isWellFormed: true, ...complete, specHash: sha256(canonicalJson(complete.spec)) };
}

function completed(kind: Kind, name: string, parsed: unknown): { spec: SpecByKind[Kind]; problems: FieldProblem[] } {
  switch (kind) {
    case "Slot": {
      const spec = slotSpecSchema.parse(parsed);
      return { spec: completeSlot(name, spec), problems: slotRules(name, spec) };
    }
    case "Model": {
      const spec = modelSpecSchema.parse(parsed);
      return { spec, problems: modelRules(spec) };
    }
    case "Upstream": {
      const spec = upstreamSpecSchema.parse(parsed);
      return { spec, problems: upstreamRules(spec) };
    }
    case "SlotGroup": {
      const spec = slotGroupSpecSchema.parse(parsed);
      return { spec, problems: slotGroupRules(spec) };
    }
    default:
      return kind satisfies never;
  }
}
