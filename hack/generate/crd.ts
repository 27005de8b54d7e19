import { stringify } from "yaml";
import { apiVersion, type Kind } from "../../src/api/names.ts";
import { objectStatusSchema } from "../../src/api/resource-status.ts";
import { celRules } from "./cel-rules.ts";
import { fieldWords } from "./field-words.ts";
import { isFree, isMap, readSchema, type JsonSchema } from "./json-schema.ts";
import { resources, type Resource } from "./resources.ts";
import { emptyStatus, slotStatusSchema } from "../../src/api/status.ts";

type Node = Record<string, unknown>;

/** Every stored string, list or map has a bound: the API server computes the cost of CEL rules from these bounds. */
const bounds = { maxLength: 65_536, maxItems: 256, maxProperties: 256 } as const;
const refLength = 201;

/** Lists whose items a key tells apart. */
const listKeys: Readonly<Record<string, readonly string[]>> = { "status.conditions": ["type"] };

const ready = [
  column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
  column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
];
/** Shown by `-o wide`. */
const message = { ...column("Message", "string", '.status.conditions[?(@.type=="Ready")].message'), priority: 1 };

const columns: Readonly<Record<Kind, readonly Node[]>> = {
  Slot: [
    column("State", "string", ".status.state"),
    ...ready,
    column("Model", "string", ".status.model.ref"),
    column("Port", "integer", ".status.port"),
    { ...column("Restarts", "integer", ".status.restarts"), priority: 1 },
    message,
    column("Age", "date", ".metadata.creationTimestamp"),
  ],
  Model: [
    ...ready,
    column("Ref", "string", ".spec.ref"),
    column("Source", "string", ".spec.source"),
    column("License", "string", ".spec.license"),
    message,
    column("Age", "date", ".metadata.creationTimestamp"),
  ],
  Upstream: [
    ...ready,
    column("URL", "string", ".spec.baseUrl"),
    column("Auth", "string", ".spec.auth.type"),
    message,
    column("Age", "date", ".metadata.creationTimestamp"),
  ],
  SlotGroup: [
    ...ready,
    column("Slots", "integer", ".spec.budget.slots"),
    message,
    column("Age", "date", ".metadata.creationTimestamp"),
  ],
};

function column(name: string, type: string, jsonPath: string): Node {
  return { name, type, jsonPath };
}

/**
 * With a CRD all of its resources go, in every namespace. Argo CD takes the chart's crds/ for objects of the Application, and
 * would delete them with it:
 * https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#no-resource-deletion
 */
const kept: Node = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "helm.sh/resource-policy": "keep",
};

/** The CustomResourceDefinition of a kind, as a plain object. */
export function crd(kind: Kind): Node {
  const resource = resources[kind];
  const [group = "", version = ""] = apiVersion.split("/");
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: `${resource.plural}.${group}`,
      labels: { "app.kubernetes.io/part-of": "berth" },
      annotations: kept,
    },
    spec: {
      group,
      scope: "Namespaced",
      names: {
        kind,
        listKind: `${kind}List`,
        plural: resource.plural,
        singular: kind.toLowerCase(),
        shortNames: resource.shortNames,
        categories: ["berth"],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns[kind],
          schema: { openAPIV3Schema: rootSchema(kind, resource) },
        },
      ],
    },
  };
}

/** The file's text, before formatting. */
export function crdText(kind: Kind): string {
  return stringify(crd(kind), { lineWidth: 0, aliasDuplicateObjects: false });
}

function rootSchema(kind: Kind, resource: Resource): Node {
  const spec = structural(readSchema(resource.schema, "input"), { kind, path: "spec", isBounded: true });
  const described = (name: string): Node => ({ description: fieldWords[name] });
  return {
    type: "object",
    description: resource.description,
    required: ["spec"],
    properties: {
      apiVersion: { type: "string", ...described("apiVersion") },
      kind: { type: "string", ...described("kind") },
      // The rule on names points at it.
      metadata: { type: "object", properties: { name: { type: "string" } } },
      spec,
      status: statusSchema(kind),
    },
    ...validations(kind, ""),
  };
}

/**
 * The operator alone writes it, and whole. Merged field by field, server-side apply would turn a list or map that became
 * empty into null, and a required field would be missing.
 */
function statusSchema(kind: Kind): Node {
  const schema = kind === "Slot" ? slotStatusSchema : objectStatusSchema;
  const status = structural(readSchema(schema, "output"), { kind, path: "status", isBounded: false });
  const record = { type: "string", description: fieldWords["status.record"] };
  return {
    ...status,
    "x-kubernetes-map-type": "atomic",
    default: { ...(kind === "Slot" ? emptyStatus : {}), ...unseen },
    ...(kind === "Slot" && isNode(status["properties"]) ? { properties: { ...status["properties"], record } } : {}),
  };
}

/**
 * Of an object that no operator has read. Without a status whoever waits for health (Flux, everything that counts by
 * kstatus) takes a new object for a healthy one; an observed generation that is not the object's says that it is not.
 */
export const unseen: Node = {
  observedGeneration: 0,
  conditions: [
    {
      type: "Ready",
      status: "Unknown",
      observedGeneration: 0,
      lastTransitionTime: "1970-01-01T00:00:00Z",
      reason: "NotObserved",
      message: "no operator has read it yet: see whether one runs in this namespace",
    },
  ],
};

const preserves = "x-kubernetes-preserve-unknown-fields";

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null;
}

interface Place {
  readonly kind: Kind;
  readonly path: string;
  readonly isBounded: boolean;
}

/**
 * A structural schema:
 * https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
 * Unknown fields are pruned there, so `additionalProperties: false` is left out; key patterns of maps cannot be
 * expressed.
 */
function structural(schema: JsonSchema, place: Place): Node {
  const words = schema.description ?? fieldWords[place.path];
  const described = words === undefined ? {} : { description: words };
  const common: Node = { ...described, ...(schema.default === undefined ? {} : { default: schema.default }) };
  if (schema.anyOf !== undefined) return { ...common, ...union(schema.anyOf, place) };
  if (isFree(schema)) return { ...common, [preserves]: true };
  return { type: schema.type, ...common, ...typed(schema, place), ...validations(place.kind, place.path) };
}

function typed(schema: JsonSchema, place: Place): Node {
  switch (schema.type ?? "any") {
    case "object":
      return object(schema, place);
    case "array": {
      const keys = listKeys[place.path];
      return {
        ...picked(schema, ["minItems", "maxItems"]),
        ...(place.isBounded && schema.maxItems === undefined ? { maxItems: bounds.maxItems } : {}),
        ...(keys === undefined ? {} : { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys }),
        items: structural(schema.items ?? {}, { ...place, path: `${place.path}[]` }),
      };
    }
    case "string": {
      const isOpen = schema.enum === undefined && schema.format === undefined && schema.maxLength === undefined;
      const maxLength = schema.pattern?.endsWith("{0,200}$") === true ? refLength : bounds.maxLength;
      return {
        ...picked(schema, ["enum", "format", "pattern", "minLength", "maxLength"]),
        ...(place.isBounded && isOpen ? { maxLength } : {}),
        ...(place.isBounded && schema.format === "uri" ? { maxLength: 2048 } : {}),
      };
    }
    case "integer":
      return { format: "int64", ...picked(schema, ["minimum", "maximum"]) };
    case "number":
      return {
        ...picked(schema, ["minimum", "maximum"]),
        // OpenAPI 3.0: a flag beside the bound.
        ...(schema.exclusiveMinimum === undefined ? {} : { minimum: schema.exclusiveMinimum, exclusiveMinimum: true }),
      };
    default:
      return {};
  }
}

function object(schema: JsonSchema, place: Place): Node {
  const { additionalProperties: values } = schema;
  if (typeof values === "object") {
    // Without a default a map that server-side apply empties becomes null, unless it is replaced whole.
    const whole = schema.default === undefined ? { "x-kubernetes-map-type": "atomic" } : {};
    if (isFree(values)) return { [preserves]: true, ...whole };
    return {
      ...(place.isBounded ? { maxProperties: bounds.maxProperties, ...whole } : {}),
      additionalProperties: structural(values, { ...place, path: `${place.path}.*` }),
    };
  }
  const properties = Object.entries(schema.properties ?? {}).map(([name, inner]) => [
    name,
    structural(inner, { ...place, path: `${place.path}.${name}` }),
  ]);
  return {
    ...(schema.required === undefined || schema.required.length === 0 ? {} : { required: schema.required }),
    properties: Object.fromEntries(properties),
  };
}

/**
 * Alternatives. Of objects: one object with the properties of all, and exactly one alternative's required ones. Other
 * alternatives (a text or a reference) have no type in a structural schema; there only the operator checks the value.
 */
function union(branches: readonly JsonSchema[], place: Place): Node {
  if (!branches.every((branch) => branch.type === "object" && !isMap(branch))) {
    return { [preserves]: true };
  }
  const properties: Record<string, JsonSchema> = {};
  for (const branch of branches) {
    for (const [name, inner] of Object.entries(branch.properties ?? {})) {
      const known = properties[name];
      const isTag = known?.enum !== undefined && inner.enum !== undefined;
      properties[name] = isTag ? { ...known, enum: [...(known.enum ?? []), ...(inner.enum ?? [])] } : inner;
    }
  }
  const required = branches.map((branch) => branch.required ?? []);
  const common = (required[0] ?? []).filter((name) => required.every((names) => names.includes(name)));
  const own = required.map((names) => names.filter((name) => !common.includes(name)));
  const isExclusive = own.every((names) => names.length > 0);
  return {
    type: "object",
    ...object({ type: "object", properties, required: common }, place),
    ...(isExclusive ? { oneOf: own.map((names) => ({ required: names })) } : {}),
    ...validations(place.kind, place.path),
  };
}

function validations(kind: Kind, path: string): Node {
  const rules = celRules[kind][path];
  return rules === undefined ? {} : { "x-kubernetes-validations": rules };
}

function picked(schema: JsonSchema, keys: readonly (keyof JsonSchema)[]): Node {
  return Object.fromEntries(keys.filter((key) => schema[key] !== undefined).map((key) => [key, schema[key]]));
}
