import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { Container, PodNeeds, Workload } from "../../../src/api/workload.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { podOf, type PodManifests, type PodSite, type PodStart } from "../../../src/runtimes/kubernetes/pod.ts";
import { BadWorkload } from "../../../src/runtimes/start-failure.ts";
import { thrownBy } from "../../support/rejection.ts";
import { llama, podNeeds, site, workload } from "./manifests.ts";

/** UPDATE_PODS=1 writes the files in test/fixtures/pods. */
const isUpdated = process.env["UPDATE_PODS"] === "1";

/** By name where each has one, else by place. */
function membersOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (isRecord(value)) return value;
  if (!Array.isArray(value) || !value.every(isRecord)) return undefined;
  return Object.fromEntries(
    value.map((each, index) => [typeof each["name"] === "string" ? each["name"] : index, each]),
  );
}

/** A line for each member of `after` that `before` lacks or has otherwise, and for each that is gone. */
function changes(before: unknown, after: unknown, path = ""): readonly string[] {
  const [was, is] = [membersOf(before), membersOf(after)];
  if (was === undefined || is === undefined)
    return isDeepStrictEqual(before, after) ? [] : [`${path} = ${JSON.stringify(after) ?? "none"}`];
  const names = Object.keys(is);
  const kept = Object.keys(was).filter((name) => name in is);
  const isMoved = !isDeepStrictEqual(names.slice(0, kept.length), kept) && Array.isArray(after);
  return [
    ...(isMoved ? [`${path}: ${names.join(", ")}`] : []),
    ...[...new Set([...Object.keys(was), ...names])].flatMap((name) =>
      changes(was[name], is[name], path === "" ? name : `${path}.${name}`),
    ),
  ];
}

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
const credentials = (secret: string): string =>
  `the Secret ${secret} with credentials of this installation is not allowed`;
const named = (path: string): string => `in Pods of slots: name path:${path} in SVC_POD_VOLUMES`;

const manifests: Readonly<Record<string, Case>> = {
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
  const plain = JSON.stringify(made({}), undefined, 2);

  it("is as written down, whole", () => {
    const file = new URL("../../fixtures/pods/plain.json", import.meta.url);
    if (isUpdated) writeFileSync(file, `${plain}\n`);
    const written: unknown = JSON.parse(readFileSync(file, "utf8"));
    assert.equal(plain, JSON.stringify(written, undefined, 2));
  });

  it("differs from that where its workload does, as written down", () => {
    const file = new URL("../../fixtures/pods/others.txt", import.meta.url);
    const texts = Object.entries(manifests).map(([name, given]) =>
      [name, ...changes(JSON.parse(plain), JSON.parse(JSON.stringify(made(given))))].join("\n  "),
    );
    const text = `${texts.join("\n\n")}\n`;
    if (isUpdated) writeFileSync(file, text);
    assert.deepEqual(text.split("\n"), readFileSync(file, "utf8").split("\n"));
  });

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

  /** What is named as not allowed, by what reaches for it. */
  const reaches: Readonly<Record<string, readonly (readonly [given: Case, of?: string])[]>> = {
    ...Object.fromEntries(
      ["/", "/run/containerd/containerd.sock", "/home/you", "/root", "/var/lib/cloud", "/srv/data"].map((path) => [
        `the mount of ${path} is not allowed ${named(path)}`,
        [[mounted(path)]],
      ]),
    ),
    [`the mount of //var/lib//kubelet/pods/ is not allowed ${named("/var/lib/kubelet/pods")}`]: [
      [mounted("//var/lib//kubelet/pods/")],
    ],
    [`the mount of /usr/local/bin is not allowed ${named("/usr/local/bin")}`]: [[mounted("/usr/local/bin", false)]],
    'mounts: write /srv/../etc without ".."': [[mounted("/srv/../etc")]],
    ...Object.fromEntries(
      ["/etc", "/./etc", "etc/"].map((path) => [
        `the mount of ${path} is not allowed ${named("/etc")}`,
        [[volume({ hostPath: { path } })]],
      ]),
    ),
    "the mount of / is not allowed": [
      [
        { site: hostModels("/var/lib/berth/models"), ...volume({ name: "models", hostPath: { path: "/" } }) },
        "by the name of the models' own volume",
      ],
    ],
    "the mount of /var/lib/kubelet is not allowed": [
      [volume({ name: "device-0", hostPath: { path: "/var/lib/kubelet" } }), "by the name of a device"],
    ],
    ...Object.fromEntries(
      [
        { hostPID: true },
        { hostNetwork: true },
        { hostIPC: true },
        { hostUsers: true },
        { nodeName: "control-plane" },
        { serviceAccountName: "berth-operator" },
        { serviceAccount: "berth-operator" },
        { ephemeralContainers: [{ name: "x" }] },
        { automountServiceAccountToken: true },
      ].map((spec) => [
        `podTemplate.spec.${Object.keys(spec)[0]} is not allowed in Pods of slots: start`,
        [[template(spec)]],
      ]),
    ),
    "podTemplate.spec.automountServiceAccountToken is not allowed": [
      [template({ automountServiceAccountToken: null }), "by a template that removes the refusal of rights"],
      [
        template({ $patch: "replace", serviceAccountName: "berth-operator", containers: [{ name: "engine" }] }),
        "by a template that replaces everything",
      ],
    ],
    ...Object.fromEntries(
      Object.entries({
        lifecycle: {
          lifecycle: { postStart: { httpGet: { host: "169.254.169.254", path: "/", port: 80 } } },
        },
        "readinessProbe.httpGet.host": { readinessProbe: { httpGet: { host: "169.254.169.254" } } },
        "ports[].hostPort": { ports: [{ containerPort: 1, hostPort: 80 }] },
        "volumeMounts[tmp].mountPropagation": {
          volumeMounts: [{ name: "tmp", mountPath: "/tmp", mountPropagation: "Bidirectional" }],
        },
        "securityContext.procMount": { securityContext: { procMount: "Unmasked" } },
        "securityContext.seccompProfile.type": { securityContext: { seccompProfile: { type: "Unconfined" } } },
        "securityContext.privileged": { securityContext: { privileged: true } },
        volumeDevices: { volumeDevices: [{ name: "x", devicePath: "/dev/x" }] },
      }).map(([field, fields]) => [
        `podTemplate.spec.initContainers[x].${field} is not allowed`,
        [[template({ initContainers: [{ name: "x", image: "y", ...fields }] })]],
      ]),
    ),
    "podTemplate.spec.containers[x].securityContext.privileged is not allowed": [
      [template({ containers: [{ name: "x", image: "y", securityContext: { privileged: true } }] })],
    ],
    "podTemplate.spec.initContainers[x].securityContext.capabilities.add is not allowed": [
      "SYS_ADMIN",
      "SYS_BOOT",
      "SYS_TIME",
      "NET_ADMIN",
      "ALL",
      "cap_sys_ptrace",
    ].map((name) => [
      template({ initContainers: [{ name: "x", securityContext: { capabilities: { add: [name] } } }] }),
      name,
    ]),
    ...Object.fromEntries(
      ["csi", "nfs", "ephemeral", "gcePersistentDisk"].map((kind) => [
        `podTemplate.spec.volumes[x].${kind} is not allowed`,
        [[volume({ [kind]: {} })]],
      ]),
    ),
    "podTemplate.spec.nodeSelektor is no field that Pods of slots may have; did you mean nodeSelector?": [
      [template({ nodeSelektor: { gpu: "true" } })],
    ],
    "the claim berth-state is not allowed in Pods of slots: name claim:berth-state in SVC_POD_VOLUMES": [
      [volume({ persistentVolumeClaim: { claimName: "berth-state", readOnly: true } })],
    ],
    "podTemplate.metadata.labels: app is not allowed in Pods of slots: name it in SVC_POD_LABELS": [
      [metadata({ labels: { app: "shop" } })],
    ],
    "podTemplate.metadata.annotations: cni.example/net is not allowed in Pods of slots": [
      [metadata({ annotations: { "cni.example/net": "x" } })],
    ],
    [credentials("berth-bearers")]: [
      [volume({ secret: { secretName: "berth-bearers" } }), "by a volume"],
      [engine({ envFrom: [{ secretRef: { name: "berth-bearers" } }] }), "by all variables of a Secret"],
      [{ workload: { env: { X: otherBearer } } }, "by a variable of the manifest"],
      [
        {
          workload: { bearer: { env: "KEY" }, env: { KEY: otherBearer } },
          start: { given: { env: { KEY: "read by the operator" }, bearer: "read by the operator" } },
        },
        "as its own bearer",
      ],
    ],
    [credentials("berth-tokens")]: [[volume({ projected: { sources: [{ secret: { name: "berth-tokens" } }] } })]],
    [credentials("berth-other-main-0")]: [[volume({ secret: { secretName: "berth-other-main-0" } })]],
    "podTemplate.spec.volumes[x].projected.sources[].serviceAccountToken is not allowed": [
      [volume({ projected: { sources: [{ serviceAccountToken: { path: "token" } }] } })],
    ],
    "the mount at /models of the container engine would let the Pod write the models of every slot": [
      [engine({ volumeMounts: [{ mountPath: "/models", readOnly: false }] })],
    ],
    "the mount at /m of the container x would let": [
      [
        template({ containers: [{ name: "x", image: "y", volumeMounts: [{ name: "models", mountPath: "/m" }] }] }),
        "as a sidecar",
      ],
      [
        template({
          volumes: [{ name: "again", persistentVolumeClaim: { claimName: "berth-models" } }],
          initContainers: [{ name: "x", image: "y", volumeMounts: [{ name: "again", mountPath: "/m" }] }],
        }),
        "by a second volume of their claim",
      ],
    ],
    "the mount at /data of the container engine would let": [
      [{ site: hostModels("/srv/models"), ...mounted("/srv//models/blobs/", false) }, "in a directory of theirs"],
    ],
    "podTemplate.spec.containers: engine: root in a privileged container is not allowed": [
      [template({ securityContext: { runAsUser: 0, runAsNonRoot: false } }, dri), "in the whole Pod"],
      [engine({ securityContext: { runAsNonRoot: null, runAsUser: 0 } }, dri), "in that container alone"],
    ],
    "podTemplate.spec.containers: engine: the group 6 in a privileged container is not allowed": [
      [template({ securityContext: { supplementalGroups: [44, 6] } }, dri)],
    ],
    ...Object.fromEntries(
      ["/dev/sda", "/dev/mem", "/dev/", "/dev/../etc", "/dev/dri/../sda", "/dev/mapper"].map((device) => [
        `the device ${device} is not allowed`,
        [[{ container: { devices: [device] } }]],
      ]),
    ),
    "the device /dev/dri in the container x is not allowed": [
      [
        template(
          { containers: [{ name: "x", image: "y", volumeMounts: [{ name: "device-0", mountPath: "/d" }] }] },
          dri,
        ),
      ],
    ],
  };
  for (const [words, cases] of Object.entries(reaches))
    for (const [given, of = ""] of cases) {
      it(`reaches nothing outside, unless a setting allows it: ${words} ${of}`, () => {
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
