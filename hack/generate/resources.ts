import type { z } from "zod";
import { modelSpecSchema } from "../../src/api/model.ts";
import { modelRefSchema, slotNameSchema, type Kind } from "../../src/api/names.ts";
import { slotGroupSpecSchema } from "../../src/api/slot-group.ts";
import { slotSpecSchema } from "../../src/api/slot.ts";
import { upstreamSpecSchema } from "../../src/api/upstream.ts";

export interface Resource {
  readonly schema: z.ZodType;
  /** The schema of `metadata.name`. */
  readonly name: z.ZodType;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly description: string;
}

export const resources: Readonly<Record<Kind, Resource>> = {
  Slot: {
    schema: slotSpecSchema,
    name: slotNameSchema,
    plural: "slots",
    shortNames: ["bslot"],
    description: "A named place for one model: what it holds, what it runs in, and who may ask it for what.",
  },
  Model: {
    schema: modelSpecSchema,
    name: modelRefSchema,
    plural: "models",
    shortNames: ["bmodel"],
    description: "A registry entry: where a model's bytes come from and what is known about it.",
  },
  Upstream: {
    schema: upstreamSpecSchema,
    name: modelRefSchema,
    plural: "upstreams",
    shortNames: ["bup"],
    description: "An external provider whose models are offered beside the local ones.",
  },
  SlotGroup: {
    schema: slotGroupSpecSchema,
    name: slotNameSchema,
    plural: "slotgroups",
    shortNames: ["bgroup"],
    description: "Slots that share one budget: those that name it in `group`.",
  },
};
