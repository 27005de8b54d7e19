import { z } from "zod";
import { errorTable } from "../errors.ts";
import { modelSpecSchema } from "../model.ts";
import { apiVersion, kinds, slotNameSchema, type Kind } from "../names.ts";
import { slotGroupSpecSchema } from "../slot-group.ts";
import { slotSpecSchema } from "../slot.ts";
import { upstreamSpecSchema } from "../upstream.ts";
import { labelsSchema } from "./parts.ts";
import { modelViewSchema, slotDetailSchema, slotViewSchema, upstreamViewSchema } from "./views.ts";

type Json = Record<string, unknown>;
type Direction = "input" | "output";

const specs = {
  Slot: slotSpecSchema,
  Model: modelSpecSchema,
  Upstream: upstreamSpecSchema,
  SlotGroup: slotGroupSpecSchema,
} as const satisfies Record<Kind, z.ZodType>;

/** Schemas with a name in the document, for generated clients; every other schema stands where it is used. */
const names: Readonly<Record<Direction, ReadonlyMap<unknown, string>>> = {
  input: new Map(kinds.map((kind) => [specs[kind], `${kind}Spec`])),
  output: new Map<unknown, string>([
    // The spec with all defaults filled in.
    ...kinds.map((kind) => [specs[kind], `Complete${kind}Spec`] as const),
    [slotViewSchema, "Slot"],
    [slotDetailSchema, "SlotDetail"],
    [modelViewSchema, "Model"],
    [upstreamViewSchema, "Upstream"],
  ]),
};

/** The components of an OpenAPI document, collected while its operations refer to them. */
export class ComponentSchemas {
  readonly schemas: Record<string, unknown> = { Error: errorSchema, MessagesError: messagesErrorSchema };

  /** Manifests of every kind are components, with or without a route: files hold them too. */
  constructor() {
    for (const kind of kinds) {
      this.of(specs[kind], "input", "");
      this.schemas[`${kind}Manifest`] = manifestSchema(kind);
    }
  }

  /** A schema as the document states it; `name` is the field's own, for schemas without a name. */
  of(schema: z.ZodType, io: Direction, name: string): Json {
    const known = names[io].get(schema);
    if (known === undefined) return this.#written(schema, io, name);
    if (!(known in this.schemas)) {
      // Set before the schema is written, since it may refer to itself.
      this.schemas[known] = {};
      this.schemas[known] = this.#written(schema, io, known);
    }
    return { $ref: `#/components/schemas/${known}` };
  }

  /** The body of a route for manifests: whole, or a flat spec with name and labels beside its fields. */
  manifestBody(kind: Kind, isNew: boolean): Json {
    const { properties, required, ...rest } = specParser.parse(this.schemas[`${kind}Spec`]);
    const flat = {
      ...rest,
      properties: { name: nameSchema, labels, ...properties },
      required: [...(isNew ? ["name"] : []), ...required],
    };
    const manifest = { $ref: `#/components/schemas/${kind}Manifest` };
    return { anyOf: [flat, isNew ? { allOf: [manifest, namedManifest] } : manifest] };
  }

  /** References in one document lead to its components: the definitions inside a schema move there. */
  #written(schema: z.ZodType, io: Direction, name: string): Json {
    const { $schema: _dialect, ...own } = z.toJSONSchema(schema, {
      io,
      unrepresentable: "any",
      override: ({ zodSchema, jsonSchema }) => {
        if (Object.is(zodSchema, schema) || !names[io].has(zodSchema) || !(zodSchema instanceof z.ZodType)) return;
        const reference = this.of(zodSchema, io, name);
        for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key);
        Object.assign(jsonSchema, reference);
      },
    });
    const { $defs: given = {} } = definedParser.parse(own);
    const component = (key: string): string =>
      given[key]?.anyOf?.length === anyJsonBranches ? "Json" : `${name}${key}`;
    const text = JSON.stringify(own).replaceAll(
      /"#\/\$defs\/(\w+)"/g,
      (_all, key: string) => `"#/components/schemas/${component(key)}"`,
    );
    const { $defs: definitions = {}, ...rest } = definedParser.parse(JSON.parse(text));
    for (const [key, definition] of Object.entries(definitions)) this.schemas[component(key)] = definition;
    return rest;
  }
}

/** The number of alternatives that zod writes for `z.json()`: text, number, boolean, null, list, map. */
const anyJsonBranches = 6;
const definedParser = z.looseObject({
  $defs: z.record(z.string(), z.looseObject({ anyOf: z.array(z.unknown()).optional() })).optional(),
});
const specParser = z.looseObject({
  properties: z.record(z.string(), z.unknown()),
  required: z.array(z.string()).default([]),
});

/** Fields that a manifest also needs where no path names the resource. */
const namedManifest: Json = {
  required: ["metadata"],
  properties: { metadata: { type: "object", required: ["name"] } },
};

const nameSchema = { ...plain(slotNameSchema), description: "As in the path, where that has one" };
const labels = { ...plain(labelsSchema), description: "Labels, as in Kubernetes; never restart anything" };

function manifestSchema(kind: Kind): Json {
  return {
    type: "object",
    description: `A ${kind} as Kubernetes would have it`,
    required: ["spec"],
    // Each of these keys distinguishes a manifest from a flat spec.
    anyOf: ["kind", "apiVersion", "metadata"].map((key) => ({ required: [key] })),
    additionalProperties: false,
    properties: {
      apiVersion: { type: "string", const: apiVersion },
      kind: { type: "string", const: kind },
      metadata: {
        // An empty `metadata:` of a YAML file.
        type: ["object", "null"],
        additionalProperties: false,
        properties: { name: kind === "Model" ? { type: "string" } : nameSchema, labels },
      },
      spec: { $ref: `#/components/schemas/${kind}Spec` },
      status: { description: "Further metadata of Kubernetes; ignored" },
    },
  };
}

/** A schema on its own, as the document states it. */
export function plain(schema: z.ZodType): Json {
  const { $schema: _dialect, ...own } = z.toJSONSchema(schema, { io: "input" });
  return own;
}

const failureSchema: Json = {
  type: "object",
  required: ["code", "message", "type"],
  additionalProperties: false,
  properties: {
    code: { type: "string", enum: Object.keys(errorTable) },
    message: { type: "string" },
    type: { type: "string" },
    openai_code: { type: "string" },
    param: { type: "string" },
    n_prompt_tokens: { type: "integer" },
    n_ctx: { type: "integer" },
    details: { type: "object" },
  },
};

const errorSchema: Json = {
  type: "object",
  required: ["error"],
  additionalProperties: false,
  properties: { error: failureSchema },
};

/** The error body that Anthropic's clients read. */
const messagesErrorSchema: Json = {
  ...errorSchema,
  required: ["type", "error"],
  properties: { type: { type: "string", const: "error" }, error: failureSchema },
};
