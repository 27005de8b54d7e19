import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { Container, PodNeeds, Workload } from "../../../src/api/workload.ts";
import { podOf, type PodManifests, type PodSite, type PodStart } from "../../../src/runtimes/kubernetes/pod.ts";
import { BadWorkload } from "../../../src/runtimes/start-failure.ts";
import { thrownBy } from "../../support/rejection.ts";
import { llama, podNeeds, site, workload } from "./manifests.ts";

const owner = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", name: "primary", uid: "5f0a" } as const;

const gib = 1024 ** 3;
const startedAt = new Date("2026-11-23T12:00:00.250Z");

interface Case {
  readonly workload?: Partial<Workload>;
  readonly container?: Partial<Container>;
  readonly site?: Partial<PodSite>;
  readonly start?: Partial<PodStart>;
}

function made({ workload: changed, container, site: where, start }: Case): PodManifests {
  const whole = { ...workload, ...changed };
  const texts = Object.entries(whole.env).filter((pair): pair is [string, string] => typeof pair[1] === "string");
  const given = { env: Object.fromEntries(texts) };
  return podOf(whole, { ...llama, ...container }, { ...site, ...where }, { owner, given, startedAt, ...start });
}

function refuses(given: Case, words: string | RegExp): void {
  const { message } = thrownBy(() => made(given), BadWorkload);
  assert.ok(typeof words === "string" ? message.startsWith(words) : words.test(message), message);
}

type Reach = readonly [what: string, given: Case, words: string | RegExp];

const mounted = (source: string, readOnly = true): Case => ({
  container: { mounts: [{ source, target: "/data", readOnly }] },
});
const needs = (pod: Partial<PodNeeds>): Partial<Container> => ({ pod: { ...podNeeds, ...pod } });
const template = (spec: object, more: Case["container"] = {}): Case => ({
  container: { ...more, ...needs({ template: { spec } }) },
});
const metadata = (fields: object): Case => ({ container: needs({ template: { metadata: fields } }) });
const engine = (fields: object, more?: Case["container"]): Case =>
  template({ containers: [{ name: "engine", ...fields }] }, more);
const volume = (source: object): Case => template({ volumes: [{ name: "x", ...source }] });
const hostModels = (path: string) => ({ models: { directory: "/models", source: { path } } });
const onNode = { ...hostModels("/var/lib/berth/models"), node: "nas" };
const dri = { devices: ["/dev/dri"] };
const kfd = { devices: ["/dev/kfd", "/dev/dri"] };
const otherBearer = { secretKeyRef: { name: "berth-bearers", key: "other.json" } };
const bearers = "the Secret berth-bearers with credentials of this installation is not allowed";
const named = (path: string): string => `in Pods of slots: name path:${path} in SVC_POD_VOLUMES`;

/** Each in the order of the text in test/fixtures/pods; UPDATE_PODS=1 writes them. */
const manifests: Readonly<Record<string, Case>> = {
  plain: {},
  bearer: {
    workload: {
      bearer: { env: "LLAMA_API_KEY" },
      env: {
        PLAIN: "text",
        FROM_FILE: { file: "/run/secrets/x" },
        FROM_SECRET: { secretKeyRef: { name: "hub", key: "token" } },
      },
    },
    start: { given: { env: { PLAIN: "text", FROM_FILE: "hidden", LLAMA_API_KEY: "b3arer" }, bearer: "b3arer" } },
  },
  "nvidia-plugin": {
    container: { gpus: "all", memoryBytes: 8 * gib, cpus: 2.5, ...needs({ backend: "cuda" }) },
    workload: { role: "rerank", ordinal: 0 },
  },
  "amd-plugin": { container: { gpus: 2, ...kfd, ...needs({ backend: "rocm" }) } },
  "intel-plugin": { container: { ...dri, ...needs({ backend: "vulkan", extended: { "gpu.intel.com/xe": 1 } }) } },
  "shared-render-node": {
    container: { ...dri, ...needs({ backend: "vulkan", extended: { "devic.es/dri-render": 1 } }) },
  },
  "host-devices": { container: { ...kfd, ...needs({ backend: "rocm" }) } },
  "shared-claim": {
    container: {
      ...dri,
      ...needs({ backend: "vulkan", claims: [{ name: "gpu", resourceClaimName: "shared-gpu", request: "one" }] }),
    },
  },
  "host-models": { site: onNode },
  "known-need": { container: needs({ memoryBytes: 3 * gib }) },
  "limited-need": { container: { memoryBytes: 2 * gib, ...needs({ memoryBytes: 3 * gib }) } },
  "host-models-affinity": {
    site: onNode,
    ...template({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: "gpu", operator: "Exists" }] },
              { matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["old"] }] },
            ],
          },
        },
      },
    }),
  },
  "host-models-elsewhere": { site: onNode, ...template({ nodeSelector: { "kubernetes.io/hostname": "tower" } }) },
  custom: {
    site: { volumes: ["path:/mnt/data"] },
    workload: {
      slot: "coder",
      ordinal: 3,
      command: ["/bin/sh", "-c", "exec serve --cost $5 --home $(HOME) $$(PORT)"],
      env: { PRICE: "$(PORT)" },
      workingDir: "/srv",
      stopSeconds: 0,
    },
    container: {
      replacesEntrypoint: true,
      isRootReadOnly: false,
      hasInit: true,
      shmSizeBytes: gib,
      modelFiles: ["/data/m.gguf"],
      mounts: [{ source: "/mnt/data", target: "/data", readOnly: true }],
      capabilities: ["SYS_NICE"],
    },
  },
  template: {
    site: { labels: ["team", "note"] },
    container: needs({
      template: {
        metadata: { labels: { team: "home" }, annotations: { note: "mine" } },
        spec: {
          restartPolicy: "Never",
          runtimeClassName: "nvidia",
          nodeSelector: { gpu: "yes" },
          tolerations: [{ key: "gpu", operator: "Exists" }],
          imagePullSecrets: [{ name: "registry" }],
          securityContext: { supplementalGroups: [109] },
          containers: [
            { name: "engine", env: [{ name: "HSA_OVERRIDE_GFX_VERSION", value: "11.0.0" }] },
            { name: "exporter", image: "exporter:1" },
          ],
        },
      },
    }),
  },
};

describe("the Pod of a workload", () => {
  for (const [name, given] of Object.entries(manifests)) {
    it(`is as written down: ${name}`, () => {
      const file = new URL(`../../fixtures/pods/${name}.json`, import.meta.url);
      const text = `${JSON.stringify(made(given), undefined, 2)}\n`;
      if (process.env["UPDATE_PODS"] === "1") writeFileSync(file, text);
      const written: unknown = JSON.parse(readFileSync(file, "utf8"));
      assert.equal(text, `${JSON.stringify(written, undefined, 2)}\n`);
    });
  }

  it("has a name of its own for each slot, role and ordinal", () => {
    const names = (["a", "a-main", "a-main-0"] as const).flatMap((slot) =>
      (["main", "rerank"] as const).flatMap((role) =>
        [0, 1, 10].map((ordinal) => JSON.stringify(made({ workload: { slot, role, ordinal } }).pod["metadata"])),
      ),
    );
    const distinct = new Set(names.map((text) => /"name":"([^"]*)"/.exec(text)?.[1]));
    assert.equal(distinct.size, names.length);
    for (const name of distinct) assert.match(name ?? "", /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
  });

  it("shows no bearer and no value of a file, anywhere in the Pod", () => {
    const { pod, secret } = made(manifests["bearer"] ?? {});
    assert.doesNotMatch(JSON.stringify(pod), /b3arer|hidden/);
    const data = { FROM_FILE: "aGlkZGVu", LLAMA_API_KEY: "YjNhcmVy" };
    assert.deepEqual(secret?.["data"], data);
  });

  const refusals: readonly Reach[] = [
    [
      "a number of GPUs without a known plugin",
      { container: { gpus: 1, ...needs({ backend: "vulkan" }) } },
      "resources.gpus: no device plugin is known for the backend vulkan: name its resource in resources.extended",
    ],
    [
      "a model outside of the models directory",
      { container: { modelFiles: ["/mnt/other/m.gguf"] } },
      /^the model file \/mnt\/other\/m\.gguf is not in \/models, .* or mount its directory/,
    ],
    ["a template of another kind", { container: needs({ template: [] }) }, "podTemplate: a map"],
    [
      "a template with a misplaced field",
      { container: needs({ template: { nodeSelector: {} } }) },
      "podTemplate.nodeSelector: a Pod template has metadata and spec",
    ],
    [
      "a template without the engine",
      engine({ $patch: "delete" }),
      "podTemplate.spec.containers: the container engine must stay",
    ],
  ];
  for (const [title, given, words] of refusals) {
    it(`is refused: ${title}`, () => refuses(given, words));
  }

  const reaches: readonly Reach[] = [
    ...["/", "/run/containerd/containerd.sock", "/home/you", "/root", "/var/lib/cloud", "/srv/data"].map(
      (path): Reach => [`the node's ${path}`, mounted(path), `the mount of ${path} is not allowed ${named(path)}`],
    ),
    ...[
      ["//var/lib//kubelet/pods/", "/var/lib/kubelet/pods"],
      ["/usr/local/bin", "/usr/local/bin"],
    ].map(([path = "", clean = ""]): Reach => [
      `the node's ${path} for writing`,
      mounted(path, false),
      `the mount of ${path} is not allowed ${named(clean)}`,
    ]),
    ["a path with two meanings", mounted("/srv/../etc"), 'mounts: write /srv/../etc without ".."'],
    ...[
      ["/etc", "/etc"],
      ["/./etc", "/etc"],
      ["etc/", "/etc"],
    ].map(([path = "", clean = ""]): Reach => [
      `the node's ${path} by a volume of the template`,
      volume({ hostPath: { path } }),
      `the mount of ${path} is not allowed ${named(clean)}`,
    ]),
    [
      "the node's root by the name of the models' own volume",
      { site: hostModels("/var/lib/berth/models"), ...volume({ name: "models", hostPath: { path: "/" } }) },
      "the mount of / is not allowed",
    ],
    [
      "the kubelet's files by the name of a device",
      volume({ name: "device-0", hostPath: { path: "/var/lib/kubelet" } }),
      "the mount of /var/lib/kubelet is not allowed",
    ],
    ...[
      { hostPID: true },
      { hostNetwork: true },
      { hostIPC: true },
      { hostUsers: true },
      { nodeName: "control-plane" },
      { serviceAccountName: "berth-operator" },
      { serviceAccount: "berth-operator" },
      { ephemeralContainers: [{ name: "x" }] },
      { automountServiceAccountToken: true },
      // A template that removes Berth's own refusal of the operator's rights.
      { automountServiceAccountToken: null },
    ].map((spec): Reach => [
      `the Pod's ${JSON.stringify(spec)}`,
      template(spec),
      `podTemplate.spec.${Object.keys(spec)[0]} is not allowed in Pods of slots: start`,
    ]),
    [
      "the operator's rights by a template that replaces everything",
      template({ $patch: "replace", serviceAccountName: "berth-operator", containers: [{ name: "engine" }] }),
      "podTemplate.spec.automountServiceAccountToken is not allowed",
    ],
    ...(
      [
        ["lifecycle", { postStart: { httpGet: { host: "169.254.169.254", path: "/", port: 80 } } }],
        ["readinessProbe", { httpGet: { host: "169.254.169.254" } }],
        ["ports", [{ containerPort: 1, hostPort: 80 }]],
        ["volumeMounts", [{ name: "tmp", mountPath: "/tmp", mountPropagation: "Bidirectional" }]],
        ["securityContext", { procMount: "Unmasked" }],
        ["securityContext", { seccompProfile: { type: "Unconfined" } }],
        ["securityContext", { privileged: true }],
        ["volumeDevices", [{ name: "x", devicePath: "/dev/x" }]],
        ...["SYS_ADMIN", "SYS_BOOT", "SYS_TIME", "NET_ADMIN", "ALL", "cap_sys_ptrace"].map(
          (capability) => ["securityContext", { capabilities: { add: [capability] } }] as const,
        ),
      ] as const
    ).map(([field, value]): Reach => [
      `a container's ${field} ${JSON.stringify(value)}`,
      template({ initContainers: [{ name: "x", image: "y", [field]: value }] }),
      `podTemplate.spec.initContainers[x].${field}`,
    ]),
    ...["csi", "nfs", "ephemeral", "gcePersistentDisk"].map((kind): Reach => [
      `a volume of the kind ${kind}`,
      volume({ [kind]: {} }),
      `podTemplate.spec.volumes[x].${kind} is not allowed`,
    ]),
    [
      "a field that is misspelt, which has the right one beside it",
      template({ nodeSelektor: { gpu: "true" } }),
      "podTemplate.spec.nodeSelektor is no field that Pods of slots may have; did you mean nodeSelector?",
    ],
    [
      "a claim of Berth's own",
      volume({ persistentVolumeClaim: { claimName: "berth-state", readOnly: true } }),
      "the claim berth-state is not allowed in Pods of slots: name claim:berth-state in SVC_POD_VOLUMES",
    ],
    [
      "a label of another Service",
      metadata({ labels: { app: "shop" } }),
      "podTemplate.metadata.labels: app is not allowed in Pods of slots: name it in SVC_POD_LABELS",
    ],
    [
      "an annotation that a controller obeys",
      metadata({ annotations: { "cni.example/net": "x" } }),
      "podTemplate.metadata.annotations: cni.example/net is not allowed in Pods of slots",
    ],
    ["the bearers of other engines by a volume", volume({ secret: { secretName: "berth-bearers" } }), bearers],
    [
      "the records of tokens by a projected volume",
      volume({ projected: { sources: [{ secret: { name: "berth-tokens" } }] } }),
      "the Secret berth-tokens with credentials of this installation is not allowed",
    ],
    [
      "the bearers of other engines by all variables of a Secret",
      engine({ envFrom: [{ secretRef: { name: "berth-bearers" } }] }),
      bearers,
    ],
    ["the bearers of other engines by a variable of the manifest", { workload: { env: { X: otherBearer } } }, bearers],
    [
      "the bearers of other engines as its own bearer",
      {
        workload: { bearer: { env: "KEY" }, env: { KEY: otherBearer } },
        start: { given: { env: { KEY: "read by the operator" }, bearer: "read by the operator" } },
      },
      bearers,
    ],
    [
      "the Secret beside another engine's Pod",
      volume({ secret: { secretName: "berth-other-main-0" } }),
      "the Secret berth-other-main-0 with credentials of this installation is not allowed",
    ],
    [
      "the operator's rights by a volume",
      volume({ projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }),
      "podTemplate.spec.volumes[x].projected.sources[].serviceAccountToken is not allowed",
    ],
    [
      "the models for writing by a template that changes their own mount",
      engine({ volumeMounts: [{ mountPath: "/models", readOnly: false }] }),
      "the mount at /models of the container engine would let the Pod write the models of every slot",
    ],
    [
      "the models for writing by a sidecar",
      template({ containers: [{ name: "x", image: "y", volumeMounts: [{ name: "models", mountPath: "/m" }] }] }),
      "the mount at /m of the container x would let",
    ],
    [
      "the models for writing by a second volume of their claim",
      template({
        volumes: [{ name: "again", persistentVolumeClaim: { claimName: "berth-models" } }],
        initContainers: [{ name: "x", image: "y", volumeMounts: [{ name: "again", mountPath: "/m" }] }],
      }),
      "the mount at /m of the container x would let",
    ],
    [
      "the models for writing by a mount of a directory of theirs",
      { site: hostModels("/srv/models"), ...mounted("/srv//models/blobs/", false) },
      "the mount at /data of the container engine would let",
    ],
    [
      "the node's disks as root in a container that Berth makes privileged",
      template({ securityContext: { runAsUser: 0, runAsNonRoot: false } }, dri),
      "podTemplate.spec.containers: engine: root in a privileged container is not allowed",
    ],
    [
      "the node's disks as root of that container alone",
      engine({ securityContext: { runAsNonRoot: null, runAsUser: 0 } }, dri),
      "podTemplate.spec.containers: engine: root in a privileged container is not allowed",
    ],
    [
      "the node's disks by their group",
      template({ securityContext: { supplementalGroups: [44, 6] } }, dri),
      "podTemplate.spec.containers: engine: the group 6 in a privileged container is not allowed",
    ],
    ...["/dev/sda", "/dev/mem", "/dev/", "/dev/../etc", "/dev/dri/../sda", "/dev/mapper"].map((device): Reach => [
      `the device ${device}`,
      { container: { devices: [device] } },
      "the device /dev/",
    ]),
    [
      "a device in another container",
      template({ containers: [{ name: "x", image: "y", volumeMounts: [{ name: "device-0", mountPath: "/d" }] }] }, dri),
      "the device /dev/dri in the container x is not allowed",
    ],
  ];
  for (const [what, given, words] of reaches) {
    it(`does not reach ${what}, unless a setting allows it`, () => {
      refuses(given, words);
      assert.ok(made({ ...given, site: { ...given.site, isUnrestricted: true } }).pod);
    });
  }

  it("may have the groups of the node's graphics devices in a privileged container", () => {
    assert.ok(made(template({ securityContext: { supplementalGroups: [44, 104] } }, dri)).pod);
  });

  it("may mount what the installation names", () => {
    const volumes = ["path:/usr/lib/wsl/", "path:/mnt", "claim:data"];
    for (const path of ["/usr/lib/wsl", "/usr/lib/wsl/lib", "/mnt"])
      assert.ok(made({ site: { volumes }, ...mounted(path) }).pod);
    assert.throws(() => made({ site: { volumes }, ...mounted("/mnt2") }), BadWorkload);
    assert.ok(made({ site: { volumes }, ...volume({ persistentVolumeClaim: { claimName: "data" } }) }).pod);
  });

  it("may have the fields and capabilities that an image needs within its Pod", () => {
    const securityContext = { runAsUser: 0, runAsNonRoot: false, capabilities: { add: ["IPC_LOCK", "cap_chown"] } };
    const tools = { name: "tools", image: "y", restartPolicy: "Always", securityContext, envFrom: [] };
    const probed = { name: "engine", readinessProbe: { httpGet: { path: "/", port: 1 }, tcpSocket: null } };
    const volumes = [
      { name: "a", emptyDir: {} },
      { name: "b", configMap: { name: "c" } },
      { name: "c", secret: { secretName: "mine" } },
      { name: "d", projected: { sources: [{ secret: { name: "mine" } }, { configMap: { name: "c" } }] } },
    ];
    assert.ok(made(template({ initContainers: [tools], containers: [probed], volumes, priorityClassName: "low" })).pod);
  });

  it("has no label of Berth's by a template, whatever the installation allows", () => {
    for (const key of ["berth.dev/part", "berth.dev/slot", "berth.dev/new", "app.kubernetes.io/name"])
      for (const field of ["labels", "annotations"])
        for (const where of [{ labels: ["berth.dev/", key] }, { isUnrestricted: true }]) {
          if (field === "annotations" && key.startsWith("app.")) continue;
          const message = `podTemplate.metadata.${field}: ${key} belongs to Berth`;
          assert.throws(() => made({ site: where, ...metadata({ [field]: { [key]: "gateway" } }) }), { message });
        }
  });

  it("may read the models by a mount of its own, and write a directory beside them", () => {
    const at = hostModels("/srv/models");
    for (const given of [mounted("/srv/models"), mounted("/srv/models-of-others", false)])
      assert.ok(made({ site: { ...at, volumes: ["path:/srv"] }, ...given }).pod);
    assert.ok(made({ site: at, ...mounted("/srv/models/a") }).pod);
  });

  it("is refused where no volume holds the models", () => {
    const { models: _none, ...without } = site;
    const given = { env: {} };
    assert.throws(() => podOf(workload, llama, without, { given, startedAt }), /SVC_POD_MODELS=claim:NAME/);
    assert.ok(podOf(workload, { ...llama, modelFiles: [] }, without, { given, startedAt }).pod);
  });
});
