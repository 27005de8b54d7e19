import { z } from "zod";
import { configShape, type ConfigKey } from "../../src/api/config.ts";
import type { Kind } from "../../src/api/names.ts";
import { readSchema, type JsonSchema } from "./json-schema.ts";
import { resources } from "./resources.ts";

/** Settings that the chart decides itself, has a value of its own for, or that mean nothing in a Pod. */
const chartsOwn: ReadonlySet<ConfigKey> = new Set([
  "adminPassword",
  "adminUser",
  "authEnabled",
  "dockerHost",
  // Their port is another origin, to which the API leads by the address that a browser used: no Service has both.
  "enginePages",
  "enginePagesPort",
  "engineUser",
  "llamaImage",
  "llamaServer",
  "modelsDir",
  "operatorHost",
  "operatorPort",
  "podModels",
  "port",
  "runtime",
  "slotPorts",
  "stateDir",
  "store",
  "tlsEmail",
]);

const text = z.string();
const name = z.string().regex(/^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$/);
const paths = z.array(z.string().startsWith("/")).min(1);
const size = z.string().regex(/^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$/);
const texts = z.record(z.string(), z.string());
/** Passed on to the API server, which checks it. */
const object = z.looseObject({});
const objects = z.array(object);

const part = {
  replicas: z.int().min(1).max(100),
  env: objects,
  resources: object,
  podLabels: texts,
  podAnnotations: texts,
  nodeSelector: texts,
  tolerations: objects,
  affinity: object,
  topologySpreadConstraints: objects,
  priorityClassName: name,
};

/** Every value of the chart but settings and resources, which have schemas of their own. */
const shape = {
  // The value of a label.
  nameOverride: z
    .string()
    .max(63)
    .regex(/^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$/),
  // The name of a Service, with room for what Pods append.
  fullnameOverride: z
    .string()
    .max(36)
    .regex(/^([a-z]([-a-z0-9]*[a-z0-9])?)?$/),
  image: z.strictObject({
    repository: z.string().min(1),
    tag: z.string().regex(/^([\w][\w.-]{0,127})?$/),
    digest: z.string().regex(/^(sha256:[0-9a-f]{64})?$/),
    pullPolicy: z.enum(["Always", "IfNotPresent", "Never"]),
  }),
  imagePullSecrets: z.array(z.strictObject({ name })),
  auth: z.strictObject({ enabled: z.boolean() }),
  llamaImage: text,
  modelStorage: z.strictObject({
    existingClaim: name,
    hostPath: z.string().regex(/^(\/.*)?$/),
    size,
    storageClass: z.string().describe('"-": no class, for a volume that is there already'),
    // Not ReadWriteOncePod: the operator and every engine mount it.
    accessModes: z.array(z.enum(["ReadWriteOnce", "ReadWriteMany"])).min(1),
    volumeName: name,
    keep: z.boolean(),
  }),
  user: z.int().min(1).describe("Not root"),
  gateway: z.strictObject({ ...part, preStopSeconds: z.int().min(0).max(300), stateSize: size, stateClaim: name }),
  operator: z.strictObject({ ...part, strategy: z.enum(["Recreate", "RollingUpdate"]) }),
  service: z.strictObject({
    type: z.enum(["ClusterIP", "NodePort", "LoadBalancer"]),
    port: z.int().min(1).max(65_535),
    annotations: texts,
    clusterIP: z.string().regex(/^[0-9a-fA-F.:]*$/),
    nodePort: z.int().min(0).max(65_535).nullable().optional(),
    loadBalancerClass: text,
    sessionAffinity: z.enum(["None", "ClientIP"]),
  }),
  ingress: z.strictObject({
    enabled: z.boolean(),
    className: name,
    annotations: texts,
    hosts: z.array(z.string().min(1)),
    paths,
    tls: objects,
  }),
  httpRoute: z.strictObject({
    enabled: z.boolean(),
    annotations: texts,
    parentRefs: objects,
    hostnames: z.array(z.string().min(1)),
    paths,
  }),
  podDisruptionBudget: z.strictObject({
    enabled: z.boolean(),
    maxUnavailable: z.union([z.int().min(1), z.string().regex(/^[1-9][0-9]*%$/)]),
  }),
  autoscaling: z.strictObject({
    enabled: z.boolean(),
    minReplicas: z.int().min(1),
    maxReplicas: z.int().min(1),
    targetCPU: z.string().regex(/^([1-9][0-9]*m?|[0-9]+\.[0-9]+)$/),
  }),
  networkPolicy: z.strictObject({ enabled: z.boolean(), gatewayFrom: objects, metricsFrom: objects }),
  monitoring: z.strictObject({
    serviceMonitor: z.strictObject({
      enabled: z.boolean(),
      labels: texts,
      interval: z.string().regex(/^[0-9]+(ms|s|m|h)$/),
    }),
    rules: z.strictObject({ enabled: z.boolean(), labels: texts, runbookBase: z.string().regex(/^(.*\/)?$/) }),
  }),
  crds: z.strictObject({ upgrade: z.boolean() }),
  uninstall: z.strictObject({ seconds: z.int().min(3).max(3600) }),
  resourceClaims: z.record(z.string(), object),
};

/** charts/berth/values.schema.json. Helm fills in the defaults of values.yaml before it checks. */
export function valuesSchema(): object {
  const own = readSchema(z.strictObject(shape), "input");
  const settings = readSchema(z.strictObject(configShape), "input").properties ?? {};
  const kept = Object.entries(settings).filter(([key]) => !isChartsOwn(key));
  // A null removes a default, with all that templates read below it.
  const required = Object.entries(shape).flatMap(([key, value]) => (value instanceof z.ZodObject ? [key] : []));
  const rest = { ...own, required: [...required, "settings"] };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of Berth's chart",
    ...rest,
    properties: {
      ...own.properties,
      // Helm's own: a parent chart's values.
      global: { type: "object" },
      settings: { type: "object", additionalProperties: false, properties: Object.fromEntries(kept) },
      slots: named("Slot"),
      models: named("Model"),
      upstreams: named("Upstream"),
      slotGroups: named("SlotGroup"),
    },
  };
}

function isChartsOwn(key: string): boolean {
  const keys: ReadonlySet<string> = chartsOwn;
  return keys.has(key);
}

/**
 * Specs by name; null removes one of another values file. The chart's templates judge the names: of a name that
 * `propertyNames` refuses, Helm's validator says that it is at another place.
 */
function named(kind: Kind): object {
  const { description, schema } = resources[kind];
  const { type, ...spec } = readSchema(schema, "input");
  // Not `anyOf`, of which the validator lists every branch that a spec does not fit.
  return { type: "object", description, additionalProperties: { type: [type, "null"], ...withPatterns(spec) } };
}

/** A map's names as a pattern, for the same reason as in `named`. */
function withPatterns(schema: JsonSchema): object {
  const { propertyNames, additionalProperties, properties, items, anyOf, ...rest } = schema;
  const values = typeof additionalProperties === "object" ? withPatterns(additionalProperties) : additionalProperties;
  const fields = Object.entries(properties ?? {}).map(([key, field]) => [key, withPatterns(field)]);
  const pattern = propertyNames?.pattern;
  return {
    ...rest,
    ...(properties === undefined ? {} : { properties: Object.fromEntries(fields) }),
    ...(items === undefined ? {} : { items: withPatterns(items) }),
    ...(anyOf === undefined ? {} : { anyOf: anyOf.map(withPatterns) }),
    ...(values === undefined ? {} : { additionalProperties: values }),
    ...(pattern === undefined ? {} : { patternProperties: { [pattern]: values }, additionalProperties: false }),
  };
}
