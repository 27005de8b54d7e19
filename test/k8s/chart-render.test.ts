import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { isRecord } from "../../src/lib/record.ts";
import { gatewayRights, logRights, operatorRights, podRights, rightsIn, type Rule } from "../support/kube/account.ts";
import { chartDirectory, helm } from "../support/kube/helm.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

type Node = Readonly<Record<string, unknown>>;

/** Rendering asks no cluster. */
let home: Awaited<ReturnType<typeof tempDir>>;
before(async () => {
  home = await tempDir();
});
after(() => home[Symbol.asyncDispose]());

async function helmAlone(args: readonly string[], values?: object): Promise<string> {
  return await helm({ directory: home.path, kubeconfig: join(home.path, "none") }, args, values);
}

/** Kinds of others that the chart makes where it is asked to: they only have to exist. */
const others = [
  ["monitoring.coreos.com", "ServiceMonitor"],
  ["monitoring.coreos.com", "PrometheusRule"],
  ["gateway.networking.k8s.io", "HTTPRoute"],
] as const;

async function installStubs(plane: SharedPlane): Promise<void> {
  for (const [group, kind] of others) {
    const plural = `${kind.toLowerCase()}s`;
    const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    const crd = {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${plural}.${group}`, annotations: { "api-approved.kubernetes.io": "unapproved, a test" } },
      spec: {
        group,
        scope: "Namespaced",
        names: { kind, plural, singular: kind.toLowerCase() },
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema } }],
      },
    };
    await plane.kubectl(["apply", "-f", "-"], JSON.stringify(crd));
    await until("the kind is served", async () => (await plane.kubectl(["get", `${plural}.${group}`])) !== undefined);
  }
}

const rendered = new Map<string, Promise<readonly Node[]>>();

/** Each once: most tests look at the same objects. */
function render(values: object = {}, release = "berth"): Promise<readonly Node[]> {
  const key = `${release} ${JSON.stringify(values)}`;
  const found = rendered.get(key) ?? renderAnew(values, release);
  rendered.set(key, found);
  return found;
}

async function renderAnew(values: object, release: string): Promise<readonly Node[]> {
  const text = await helmAlone(["template", release, chartDirectory, "-n", "ai"], values);
  return parseAllDocuments(text).flatMap((document): readonly Node[] => {
    const value: unknown = document.toJS();
    return isRecord(value) ? [value] : [];
  });
}

/** The object of that name, as `Kind/name`; undefined: it is not made. */
async function made(name: string, values: object = {}): Promise<Node | undefined> {
  return (await render(values)).find((each) => nameOf(each) === name);
}

function nameOf({ kind, metadata }: Node): string {
  return `${String(kind)}/${isRecord(metadata) ? String(metadata["name"]) : ""}`;
}

/** The names of `Kind/name`, by kind. */
function byKind(names: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const grouped = Object.groupBy(names.toSorted(), (name) => name.split("/")[0] ?? "");
  return Object.fromEntries(
    Object.entries(grouped).map(([kind, all = []]) => [kind, all.map((name) => name.slice(kind.length + 1))]),
  );
}

const ruleSchema = z.object({
  apiGroups: z.array(z.string()),
  resources: z.array(z.string()),
  resourceNames: z.array(z.string()).optional(),
  verbs: z.array(z.string()),
});

/** Each right once, without those of one object where all of its kind are granted, and without the namespace's own. */
function distinct(rules: readonly Rule[]): readonly string[] {
  const rights = new Set(rightsIn(rules));
  const isCovered = (right: string): boolean =>
    rights.has(right.replace(/\/berth-\S+ /, " ")) && right.includes("/berth-");
  return [...rights].filter((right) => !isCovered(right) && !right.startsWith("namespaces")).toSorted();
}

/** Of a gateway that may write no resource: its requests are annotations of Slots. */
function readOnly({ verbs, ...rule }: Rule): Rule {
  const isWritten = (verb: string): boolean => ["create", "update", "delete"].includes(verb);
  return { ...rule, verbs: rule.apiGroups.includes("berth.dev") ? verbs.filter((verb) => !isWritten(verb)) : verbs };
}

const everything = {
  image: { digest: `sha256:${"0".repeat(64)}` },
  imagePullSecrets: [{ name: "registry" }],
  auth: { enabled: true },
  llamaImage: "localhost/engine:1",
  settings: { holdSeconds: 60, allowedHosts: ["berth.home"], bodyLimit: "32Mi", requestBodies: true, tracesPart: 0.1 },
  gateway: {
    replicas: 2,
    env: [{ name: "KEY", valueFrom: { secretKeyRef: { name: "keys", key: "provider" } } }],
    nodeSelector: { "kubernetes.io/arch": "amd64" },
    tolerations: [{ key: "gpu", operator: "Exists" }],
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: "kubernetes.io/hostname", whenUnsatisfiable: "ScheduleAnyway", labelSelector: {} },
    ],
    podLabels: { team: "ai" },
    podAnnotations: { note: "x" },
  },
  operator: { replicas: 2, strategy: "RollingUpdate", env: [{ name: "HF_TOKEN", value: "x" }] },
  ingress: { enabled: true, className: "traefik", hosts: ["ai.example.org"], tls: [{ hosts: ["ai.example.org"] }] },
  httpRoute: { enabled: true, parentRefs: [{ name: "gateway" }], hostnames: ["b.example.org"] },
  autoscaling: { enabled: true },
  networkPolicy: { gatewayFrom: [{ podSelector: {} }], metricsFrom: [{ namespaceSelector: {} }] },
  monitoring: {
    serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    rules: { enabled: true, runbookBase: "https://docs.example.org/" },
  },
  slots: {
    chat: { load: "onDemand", group: "gpu", model: { default: "qwen3-8b" } },
    paused: { enabled: false },
    gone: null,
    "2024": { enabled: false },
  },
  models: { "qwen3-8b": { source: "hf://owner/repo/file.gguf" } },
  upstreams: { cloud: { baseUrl: "https://api.example.com/v1", models: [{ ref: "large" }] } },
  slotGroups: { gpu: { budget: { slots: 1 } } },
  resourceClaims: { gpu: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.amd.com" } }] } } },
};

const sets: readonly (readonly [string, object])[] = [
  ["its own values", {}],
  ["everything", everything],
  ["a claim that is there", { modelStorage: { existingClaim: "models" } }],
  ["a directory of the node", { modelStorage: { hostPath: "/srv/models" } }],
  ["no hook before upgrades, no policy", { crds: { upgrade: false }, networkPolicy: { enabled: false } }],
  ["a gateway's state in a claim", { gateway: { stateClaim: "state" }, service: { sessionAffinity: "ClientIP" } }],
  ["a NodePort", { service: { type: "NodePort", nodePort: 30_080 } }],
];

const budget = { maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" };
const cpu = { resource: { name: "cpu", target: { type: "AverageValue", averageValue: "600m" } } };
const gateways = { matchLabels: { "app.kubernetes.io/component": "gateway" } };
const hostname = { topologyKey: "kubernetes.io/hostname", whenUnsatisfiable: "ScheduleAnyway" };
const spread = { ...hostname, labelSelector: gateways };
const podWith = (spec: object): object => ({ template: { spec } });
const stateIn = (volume: object): object => podWith({ volumes: [{ name: "state", ...volume }] });
const odd = "/srv/models, all: of them";

const gatewayPods = "Deployment/berth";
const claim = "PersistentVolumeClaim/berth-models";
const drains = "PodDisruptionBudget/berth";
const two = { replicas: 2 };

/** Values, the name of an object, and fields of the spec that it has with these values; undefined: it is not made. */
const fieldsOf: readonly (readonly [values: object, name: string, fields: object | undefined])[] = [
  [{}, drains, undefined],
  [{ gateway: two }, drains, budget],
  [{ gateway: two, podDisruptionBudget: { enabled: false } }, drains, undefined],
  [{ gateway: two, autoscaling: { enabled: true, minReplicas: 1 } }, drains, undefined],
  [{ autoscaling: { enabled: true, minReplicas: 2 } }, drains, budget],
  // By the processor time that gateways use, not by a part of what they ask for.
  [{ autoscaling: { enabled: true } }, "HorizontalPodAutoscaler/berth", { minReplicas: 2, metrics: [cpu] }],
  [{}, "Service/berth", { sessionAffinity: "None" }],
  [{ service: { sessionAffinity: "ClientIP" } }, "Service/berth", { sessionAffinity: "ClientIP" }],
  [{}, gatewayPods, { strategy: { type: "RollingUpdate" }, ...stateIn({ emptyDir: { sizeLimit: "4Gi" } }) }],
  [
    { gateway: { stateClaim: "state" } },
    gatewayPods,
    { strategy: { type: "Recreate" }, ...stateIn({ persistentVolumeClaim: { claimName: "state" } }) },
  ],
  [{}, gatewayPods, podWith({ topologySpreadConstraints: [spread] })],
  [everything, gatewayPods, podWith({ topologySpreadConstraints: everything.gateway.topologySpreadConstraints })],
  [
    { modelStorage: { storageClass: "2024", volumeName: "7", size: "10" } },
    claim,
    { storageClassName: "2024", volumeName: "7", resources: { requests: { storage: "10" } } },
  ],
  [{ modelStorage: { storageClass: "-" } }, claim, { storageClassName: "" }],
  [
    { modelStorage: { hostPath: odd } },
    "Deployment/berth-operator",
    podWith({ volumes: [{ hostPath: { path: odd } }] }),
  ],
  [everything, "Slot/2024", { enabled: false }],
];

describe("the chart", () => {
  it("has no fault that helm lint finds", async () => {
    const lint = ["lint", chartDirectory, "--strict"];
    assert.match(await helmAlone(lint), /0 chart\(s\) failed/);
    assert.match(await helmAlone(lint, everything), /0 chart\(s\) failed/);
  });

  it("renders the requested objects, and no other", async () => {
    const few = (await render()).map(nameOf);
    assert.deepEqual(byKind(few), {
      ClusterRole: ["ai-berth-kinds"],
      ClusterRoleBinding: ["ai-berth-kinds"],
      Deployment: ["berth", "berth-operator"],
      Job: ["berth-kinds", "berth-release"],
      NetworkPolicy: ["berth-engines", "berth-operator"],
      PersistentVolumeClaim: ["berth-models"],
      Pod: ["berth-test"],
      Role: ["berth-gateway", "berth-operator", "berth-release"],
      RoleBinding: ["berth-gateway", "berth-operator", "berth-release"],
      Service: ["berth", "berth-operator"],
      ServiceAccount: ["berth-gateway", "berth-kinds", "berth-operator", "berth-release"],
    });
    const all = (await render(everything)).map(nameOf);
    assert.deepEqual(byKind(all.filter((name) => !few.includes(name))), {
      HTTPRoute: ["berth"],
      HorizontalPodAutoscaler: ["berth"],
      Ingress: ["berth"],
      Model: ["qwen3-8b"],
      NetworkPolicy: ["berth-gateway"],
      PodDisruptionBudget: ["berth"],
      PrometheusRule: ["berth"],
      ResourceClaim: ["gpu"],
      ServiceMonitor: ["berth-gateway", "berth-operator"],
      Slot: ["2024", "chat", "paused"],
      SlotGroup: ["gpu"],
      Upstream: ["cloud"],
    });
  });

  it("has Argo CD make its resources after the operator, and delete them before it", async () => {
    const waves = (await render(everything)).flatMap(({ apiVersion, kind, metadata }) => {
      const annotations = isRecord(metadata) && isRecord(metadata["annotations"]) ? metadata["annotations"] : {};
      const wave = annotations["argocd.argoproj.io/sync-wave"];
      return wave !== undefined || apiVersion === "berth.dev/v1alpha1"
        ? [`${String(kind)} ${typeof wave === "string" ? wave : "0"}`]
        : [];
    });
    const operator = [
      "Deployment",
      "PersistentVolumeClaim",
      ...["Role", "RoleBinding", "ServiceAccount"].flatMap((kind) => [kind, kind]),
    ];
    const resources = ["Model", "Slot", "Slot", "Slot", "SlotGroup", "Upstream"];
    const wanted = [...operator.map((kind) => `${kind} -1`), ...resources.map((kind) => `${kind} 0`)];
    assert.deepEqual(waves.toSorted(), wanted.toSorted());
  });

  it("has policies that let the named peers in, and no other", async () => {
    const prometheus = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } };
    const edge = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress" } } };
    const part = (component: string): object => ({
      podSelector: {
        matchLabels: {
          "app.kubernetes.io/name": "berth",
          "app.kubernetes.io/instance": "berth",
          "app.kubernetes.io/component": component,
          "berth.dev/part": component,
        },
      },
    });
    const policies = async (values: object): Promise<object> =>
      Object.fromEntries(
        (await render(values))
          .filter(({ kind }) => kind === "NetworkPolicy")
          .map((policy) => [nameOf(policy).replace("NetworkPolicy/berth-", ""), policy["spec"]]),
      );
    const engines = {
      podSelector: { matchExpressions: [{ key: "berth.dev/slot", operator: "Exists" }] },
      policyTypes: ["Ingress"],
      ingress: [{ from: [part("gateway"), part("operator")] }],
    };
    const closed = { ...part("operator"), policyTypes: ["Ingress"], ingress: [] };
    assert.deepEqual(await policies({}), { engines, operator: closed });
    const networkPolicy = { gatewayFrom: [edge], metricsFrom: [prometheus] };
    assert.deepEqual(await policies({ networkPolicy, monitoring: { serviceMonitor: { enabled: true } } }), {
      engines,
      operator: { ...closed, ingress: [{ from: [prometheus], ports: [{ port: "metrics" }] }] },
      gateway: {
        ...part("gateway"),
        policyTypes: ["Ingress"],
        ingress: [{ from: [edge, part("test"), prometheus], ports: [{ port: "http" }] }],
      },
    });
  });

  for (const [values, name, fields] of fieldsOf)
    it(`makes ${name} as ${values === everything ? "everything" : JSON.stringify(values)} says`, async () => {
      const spec = (await made(name, values))?.["spec"];
      if (fields === undefined) assert.equal(spec, undefined);
      else assert.partialDeepStrictEqual(spec, fields);
    });

  it("ends the Job of an uninstall before Helm gives up, and after its three waits", async () => {
    const template = z.object({ spec: z.object({ containers: z.tuple([z.object({ args: z.array(z.string()) })]) }) });
    const job = z.object({ spec: z.object({ activeDeadlineSeconds: z.number(), template }) });
    for (const [values, mostSeconds] of [
      [{}, 300],
      [{ uninstall: { seconds: 600 } }, 660],
    ] as const) {
      const { spec } = job.parse(await made("Job/berth-release", values));
      const [{ args }] = spec.template.spec.containers;
      const waitsSeconds = 3 * Number(args[args.indexOf("--seconds") + 1]);
      const told = `${waitsSeconds} s, ${spec.activeDeadlineSeconds} s`;
      assert.ok(waitsSeconds < spec.activeDeadlineSeconds && spec.activeDeadlineSeconds < mostSeconds, told);
    }
  });

  it("publishes the given paths, by an Ingress and by an HTTPRoute", async () => {
    const text = async (paths: object): Promise<readonly string[]> =>
      (await render({ ingress: { ...everything.ingress, ...paths }, httpRoute: { ...everything.httpRoute, ...paths } }))
        .filter(({ kind }) => kind === "Ingress" || kind === "HTTPRoute")
        .map((each) =>
          [...JSON.stringify(each).matchAll(/"(?:path|value)":"([^"]+)"/g)].map(([, path]) => path).join(" "),
        );
    assert.deepEqual(await text({}), ["/", "/"]);
    const api = { paths: ["/v1", "/rerank"] };
    assert.deepEqual(await text(api), ["/v1 /rerank", "/v1 /rerank"]);
  });

  it("has names of which the cluster cuts nothing off, however long the release's is", async () => {
    const release = "a".repeat(53);
    const names = (await render(everything, release)).flatMap(({ kind, metadata }) =>
      kind === "Deployment" && isRecord(metadata) ? [String(metadata["name"])] : [],
    );
    const hash = "-0123456789-";
    // https://github.com/kubernetes/apiserver/blob/master/pkg/storage/names/generate.go: 63 less five letters.
    for (const name of names) assert.ok(`${name}${hash}`.length <= 58, name);
    assert.equal(names.length, 2);
  });

  it("refuses a release whose name no Service can have, and says what to do", async () => {
    for (const release of ["1ai", "a.b"])
      await assert.rejects(render({}, release), new RegExp(`"${release}-berth" .*Service.*: set fullnameOverride`));
    assert.ok((await render({ fullnameOverride: "ai" }, "1ai")).some((each) => nameOf(each) === "Service/ai"));
  });

  it("gives Berth settings, hosts and image as asked", async () => {
    const text = JSON.stringify(await made("Deployment/berth", everything));
    for (const part of [
      `"localhost/berth@sha256:${"0".repeat(64)}"`,
      '{"name":"SVC_HOLD_SECONDS","value":"60"}',
      '{"name":"SVC_BODY_LIMIT","value":"32Mi"}',
      '{"name":"SVC_TRACES_PART","value":"0.1"}',
      '{"name":"SVC_REQUEST_BODIES","value":"true"}',
      '{"name":"SVC_AUTH_ENABLED","value":"true"}',
      '"value":"berth,berth.ai,berth.ai.svc,berth.ai.svc.cluster.local,ai.example.org,b.example.org,berth.home"',
    ])
      assert.ok(text.includes(part), `${part} is not in ${text}`);
  });

  it("has its pages scraped under the labels that its rules ask for, and runbooks below the given address", async () => {
    const relabelings = z.array(z.object({ targetLabel: z.string(), replacement: z.string() }));
    const monitor = z.looseObject({ endpoints: z.tuple([z.looseObject({ relabelings })]) });
    const monitors = (await render(everything)).filter(({ kind }) => kind === "ServiceMonitor");
    const labels = monitors.map(({ spec }) =>
      monitor
        .parse(spec)
        .endpoints[0].relabelings.map(({ targetLabel, replacement }) => `${targetLabel}="${replacement}"`)
        .join(","),
    );
    assert.deepEqual(labels.toSorted(), ['job="berth",part="gateway"', 'job="berth",part="operator"']);
    const rule = JSON.stringify(await made("PrometheusRule/berth", everything));
    assert.match(rule, /"runbook_url":"https:\/\/docs\.example\.org\/docs\/runbooks\//);
    assert.doesNotMatch(rule, /"runbook_url":"docs/);
    for (const part of ['"record":"berth:', "{{ $labels.slot }}"]) assert.ok(rule.includes(part), part);
    for (const asked of labels) assert.ok(rule.includes(JSON.stringify(`up{${asked}}`).slice(1, -1)), asked);
  });

  const roles = [
    ["Role/berth-operator", {}, [...operatorRights, ...podRights]],
    ["Role/berth-gateway", {}, [...gatewayRights, ...logRights]],
    ["Role/berth-gateway", { settings: { readOnly: true } }, [...gatewayRights.map(readOnly), ...logRights]],
  ] as const;
  for (const [name, values, rules] of roles)
    it(`grants what is needed and nothing else: ${name} with ${JSON.stringify(values)}`, async () => {
      const granted = z.array(ruleSchema).parse((await made(name, values))?.["rules"]);
      assert.deepEqual(distinct(granted), distinct(rules));
    });

  const noName = { models: { "Qwen3-8B": {} } };
  const refused: readonly (readonly [object, RegExp])[] = [
    [{ slots: { chat: { nope: 1 } } }, /'\/slots\/chat'.*additional properties 'nope' not allowed/s],
    [{ slots: { chat: { load: "sometimes" } } }, /\/slots\/chat\/load/],
    [
      { slots: { chat: { model: { default: 1.1 } } } },
      /- at '\/slots\/chat\/model\/default': got number, want string\n$/m,
    ],
    [{ slots: { chat: { env: { "A B": "x" } } } }, /- at '\/slots\/chat\/env': .* 'A B' not allowed/],
    [{ slots: { "no name": {} } }, /slots: "no name" is not a slot name: 1 to 32 lower-case letters/],
    [{ slotGroups: { GPU: { budget: { slots: 1 } } } }, /slotGroups: "GPU" is not the name of a group/],
    [noName, /models: "Qwen3-8B" cannot be a name in a cluster: .*`ref: Qwen3-8B` in its spec/],
    [{ upstreams: { "a/b": { baseUrl: "https://example.com" } } }, /upstreams: "a\/b" cannot be a name in a cluster/],
    [{ ingress: { enabled: true } }, /ingress\.hosts: name the hosts/],
    [{ httpRoute: { enabled: true } }, /httpRoute\.parentRefs: name the Gateway/],
    [{ monitoring: { serviceMonitor: { enabled: true } } }, /networkPolicy\.metricsFrom: name the peers that are Prom/],
    [{ modelStorage: { hostPath: "/a", existingClaim: "b" } }, /hostPath and existingClaim exclude each other/],
    [{ settings: { store: "files" } }, /'\/settings'.*'store' not allowed/],
    [{ settings: { enginePages: ["chat"] } }, /'\/settings'.*'enginePages' not allowed/],
    [{ settings: { enginePagesPort: 3002 } }, /'\/settings'.*'enginePagesPort' not allowed/],
    [{ fullnameOverride: "a.b" }, /\/fullnameOverride/],
    [{ fullnameOverride: "1ai" }, /\/fullnameOverride/],
    [{ fullnameOverride: "a".repeat(37) }, /\/fullnameOverride/],
    [{ nameOverride: "a".repeat(64) }, /\/nameOverride/],
    [{ ingress: { paths: [] } }, /\/ingress\/paths/],
    [{ httpRoute: { paths: ["v1"] } }, /\/httpRoute\/paths/],
    [{ gateway: { replicas: 2, stateClaim: "state" } }, /gateway\.stateClaim: one gateway alone may use it/],
    [{ autoscaling: { enabled: true }, gateway: { stateClaim: "state" } }, /gateway\.stateClaim: one gateway alone/],
    [{ modelStorage: { accessModes: ["ReadWriteOncePod"] } }, /\/modelStorage\/accessModes/],
    [{ gateway: { replica: 2 } }, /'\/gateway'.*'replica' not allowed/],
    [{ gateway: { replicas: 0 } }, /\/gateway\/replicas/],
    [{ image: { digest: "latest" } }, /\/image\/digest/],
    [{ user: 0 }, /\/user/],
    // A group that a null has removed.
    ...["gateway", "service", "modelStorage", "image", "settings"].map(
      (group) => [{ [group]: null }, new RegExp(`'?${group}'?`)] as const,
    ),
    [{ gateway: null }, /specifications of the schema/],
  ];
  for (const [values, words] of refused)
    it(`refuses ${JSON.stringify(values)} and names the place`, async () => {
      await assert.rejects(render(values), words);
    });
});

describe("a real API server accepts the chart", () => {
  let plane: SharedPlane;
  before(async () => {
    plane = await sharedPlane();
    await installStubs(plane);
  });
  after(() => plane[Symbol.asyncDispose]());

  for (const [what, values] of sets)
    it(`with ${what}`, async () => {
      const namespace = await plane.namespace();
      const text = await helmAlone(["template", "berth", chartDirectory, "-n", namespace], values);
      const apply = ["apply", "-n", namespace, "--dry-run=server", "--validate=strict", "-f", "-"];
      await plane.kubectl(apply, text);
    });

  const words = /operator\.replicas is 2, but the claim berth-models is ReadWriteOnce: .*\n.*ReadWriteMany/;
  const warned: readonly (readonly [modelStorage: object, words: RegExp | undefined])[] = [
    [{}, words],
    [{ hostPath: "/srv/models" }, /operator\.replicas is 2/],
    [{ accessModes: ["ReadWriteMany"] }, undefined],
    [{ existingClaim: "models" }, undefined],
  ];
  for (const [modelStorage, said] of warned)
    it(`says ${said === undefined ? "nothing" : "so"} where operators share ${JSON.stringify(modelStorage)}`, async () => {
      const install = ["install", "berth", chartDirectory, "-n", await plane.namespace(), "--dry-run=client"];
      const notes = await helm(plane, install, { operator: { replicas: 2 }, modelStorage });
      if (said === undefined) assert.doesNotMatch(notes, /operator\.replicas is 2/);
      else assert.match(notes.split("NOTES:")[1] ?? "", said);
    });

  it("after a rolling update of the operator with one that ends the old operator first", async () => {
    const namespace = await plane.namespace();
    for (const [release, how] of [
      ["applied", "--server-side"],
      ["patched", "--server-side=false"],
    ] as const)
      for (const strategy of ["RollingUpdate", "Recreate"]) {
        const values = { operator: { strategy } };
        const text = await helmAlone(["template", release, chartDirectory, "-n", namespace], values);
        const apply = ["apply", "-n", namespace, how, "-l", "app.kubernetes.io/component=operator", "-f", "-"];
        await plane.kubectl(apply, text);
      }
  });
});
