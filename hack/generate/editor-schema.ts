import { z } from "zod";
import { configShape, tomlName, type ConfigKey } from "../../src/api/config.ts";
import { apiVersion, type Kind } from "../../src/api/names.ts";
import { snakeCase } from "../../src/store/files/spelling.ts";
import { isMap, readSchema, type JsonSchema } from "./json-schema.ts";
import { resources } from "./resources.ts";

/** Draft 7: what the YAML and TOML language servers read. */
const dialect = "http://json-schema.org/draft-07/schema#";
const texts = { type: "object", additionalProperties: { type: "string" } } as const;
const metadataMaps = {
  labels: { ...texts, description: "Labels, as in Kubernetes; never restart anything" },
  annotations: { ...texts, description: "Annotations, as in Kubernetes; never restart anything" },
} as const;

/** For `<name>.yaml`: a bare spec, or a full manifest where `apiVersion` or `kind` is there. */
export function yamlSchema(kind: Kind): object {
  const { description, name, schema } = resources[kind];
  return {
    $schema: dialect,
    title: `Berth ${kind} (YAML)`,
    description,
    if: { anyOf: [{ required: ["apiVersion"] }, { required: ["kind"] }] },
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
    then: { $ref: "#/definitions/manifest" },
    else: { $ref: "#/definitions/spec" },
    definitions: {
      manifest: {
        type: "object",
        required: ["apiVersion", "kind", "metadata", "spec"],
        additionalProperties: false,
        properties: {
          apiVersion: { const: apiVersion },
          kind: { const: kind },
          metadata: {
            type: "object",
            properties: {
              name: { ...readSchema(name, "input"), description: "Wins over the file's name" },
              ...metadataMaps,
            },
          },
          spec: { $ref: "#/definitions/spec" },
          status: { type: "object", description: "Written by the operator; ignored in a file" },
        },
      },
      spec: readSchema(schema, "input"),
    },
  };
}

/** For `<name>.toml`: the spec in snake_case, with labels and annotations beside it. */
export function tomlSchema(kind: Kind): object {
  const { description, schema } = resources[kind];
  const spec = inSnakeCase(readSchema(schema, "input"));
  return {
    $schema: dialect,
    title: `Berth ${kind} (TOML)`,
    description,
    ...spec,
    properties: { ...spec.properties, ...metadataMaps },
  };
}

/** For `berth.toml`. */
export function configSchema(): object {
  const { properties = {}, ...rest } = readSchema(z.strictObject(configShape), "input");
  let key: ConfigKey;
  const renamed: Record<string, JsonSchema> = {};
  for (key in configShape) {
    const fallback: unknown = configShape[key].safeParse(undefined).data;
    const schema = properties[key] ?? {};
    renamed[tomlName(key)] = fallback === undefined ? schema : { ...schema, default: fallback };
  }
  return {
    $schema: dialect,
    title: "berth.toml",
    description: "Settings of Berth; an SVC_ variable of the same name wins over the file.",
    ...rest,
    properties: renamed,
  };
}

/** Property names in TOML's spelling. Below a map of free names nothing is converted, as `store/spelling` does. */
export function inSnakeCase(schema: JsonSchema): JsonSchema {
  if (isMap(schema)) return schema;
  return {
    ...schema,
    ...(schema.properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(schema.properties).map(([name, inner]) => [snakeCase(name), inSnakeCase(inner)]),
          ),
        }),
    ...(schema.required === undefined ? {} : { required: schema.required.map(snakeCase) }),
    ...(schema.items === undefined ? {} : { items: inSnakeCase(schema.items) }),
    ...(schema.anyOf === undefined ? {} : { anyOf: schema.anyOf.map(inSnakeCase) }),
  };
}
