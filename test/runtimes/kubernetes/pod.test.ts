import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { Container, Workload } from "../../../src/api/workload.ts";
import { podOf, type PodManifests, type PodSite, type PodStart } from "../../../src/runtimes/kubernetes/pod.ts";
import { BadWorkload } from "../../../src/runtimes/start-failure.ts";
import { llama, podNeeds, site, workload } from "./manifests.ts";

const owner = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", name: "primary", uid: "5f0a" } as const;

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

const mount = (source: string) => ({ source, target: "/data", readOnly: true });
const template = (spec: object, more: Case["container"] = {}): Case => ({
  container: { ...more, pod: { ...podNeeds, template: { spec } } },
});

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
    container: { gpus: "all", memoryBytes: 8 * 1024 ** 3, cpus: 2.5, pod: { ...podNeeds, backend: "cuda" } },
    workload: { role: "rerank", ordinal: 0 },
  },
  "amd-plugin": {
    container: { gpus: 2, devices: ["/dev/kfd", "/dev/dri"], pod: { ...podNeeds, backend: "rocm" } },
  },
  "intel-plugin": {
    container: {
      devices: ["/dev/dri"],
      pod: { ...podNeeds, backend: "vulkan", extended: { "gpu.intel.com/xe": 1 } },
    },
  },
  "shared-render-node": {
    container: {
      devices: ["/dev/dri"],
      pod: { ...podNeeds, backend: "vulkan", extended: { "devic.es/dri-render": 1 } },
    },
  },
  "host-devices": {
    container: { devices: ["/dev/kfd", "/dev/dri"], pod: { ...podNeeds, backend: "rocm" } },
  },
  "shared-claim": {
    container: {
      devices: ["/dev/dri"],
      pod: {
        ...podNeeds,
        backend: "vulkan",
        claims: [{ name: "gpu", resourceClaimName: "shared-gpu", request: "one" }],
      },
    },
  },
  "host-models": {
    site: { models: { directory: "/models", source: { path: "/var/lib/berth/models" } }, node: "nas" },
  },
  "known-need": {
    container: { pod: { ...podNeeds, memoryBytes: 3 * 1024 ** 3 } },
  },
  "limited-need": {
    container: { memoryBytes: 2 * 1024 ** 3, pod: { ...podNeeds, memoryBytes: 3 * 1024 ** 3 } },
  },
  "host-models-affinity": {
    site: { models: { directory: "/models", source: { path: "/var/lib/berth/models" } }, node: "nas" },
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
  "host-models-elsewhere": {
    site: { models: { directory: "/models", source: { path: "/var/lib/berth/models" } }, node: "nas" },
    ...template({ nodeSelector: { "kubernetes.io/hostname": "tower" } }),
  },
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
      shmSizeBytes: 1024 ** 3,
      modelFiles: ["/data/m.gguf"],
      mounts: [{ source: "/mnt/data", target: "/data", readOnly: true }],
      capabilities: ["SYS_NICE"],
    },
  },
  template: {
    site: { labels: ["team", "note"] },
    container: {
      pod: {
        ...podNeeds,
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
      },
    },
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

  const refusals: readonly [title: string, given: Case, words: RegExp][] = [
    [
      "a number of GPUs without a known plugin",
      { container: { gpus: 1, pod: { ...podNeeds, backend: "vulkan" } } },
      /^resources\.gpus: no device plugin is known for the backend vulkan: name its resource in resources\.extended/,
    ],
    [
      "a model outside of the models directory",
      { container: { modelFiles: ["/mnt/other/m.gguf"] } },
      /^the model file \/mnt\/other\/m\.gguf is not in \/models, .* or mount its directory/,
    ],
    ["a template of another kind", { container: { pod: { ...podNeeds, template: [] } } }, /^podTemplate: a map/],
    [
      "a template with a misplaced field",
      { container: { pod: { ...podNeeds, template: { nodeSelector: {} } } } },
      /^podTemplate\.nodeSelector: a Pod template has metadata and spec/,
    ],
    [
      "a template without the engine",
      {
        container: { pod: { ...podNeeds, template: { spec: { containers: [{ $patch: "delete", name: "engine" }] } } } },
      },
      /^podTemplate\.spec\.containers: the container engine must stay/,
    ],
  ];
  for (const [title, given, words] of refusals) {
    it(`is refused: ${title}`, () => {
      assert.throws(
        () => made(given),
        (error) => error instanceof BadWorkload && words.test(error.message),
      );
    });
  }

  const reaches: readonly [what: string, given: Case, words: RegExp][] = [
    [
      "the node's root",
      { container: { mounts: [mount("/")] } },
      /^the mount of \/ is not allowed in Pods of slots: name path:\/ in SVC_POD_VOLUMES, or start/,
    ],
    [
      "a socket of the container engine",
      { container: { mounts: [mount("/run/containerd/containerd.sock")] } },
      /^the mount of \/run\/containerd\/containerd\.sock is not allowed/,
    ],
    [
      "the kubelet's files",
      { container: { mounts: [mount("//var/lib//kubelet/pods/")] } },
      /^the mount of \/\/var\/lib\/\/kubelet\/pods\/ is not allowed/,
    ],
    ...["/home/you", "/root", "/var/lib/cloud", "/var/lib/minikube/certs", "/srv/data"].map(
      (path): (typeof reaches)[number] => [
        `the node's directory ${path}`,
        { container: { mounts: [mount(path)] } },
        /^the mount of \S+ is not allowed in Pods of slots: name path:\S+ in SVC_POD_VOLUMES/,
      ],
    ),
    [
      "a path with two meanings",
      { container: { mounts: [mount("/srv/../etc")] } },
      /^mounts: write \/srv\/\.\.\/etc without "\.\."$/,
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
    ].map((spec): (typeof reaches)[number] => [
      `the Pod's ${Object.keys(spec)[0]}`,
      template(spec),
      new RegExp(`^podTemplate\\.spec\\.${Object.keys(spec)[0]} is not allowed in Pods of slots: start`),
    ]),
    ...[
      { lifecycle: { postStart: { httpGet: { host: "169.254.169.254", path: "/", port: 80 } } } },
      { readinessProbe: { httpGet: { host: "169.254.169.254" } } },
      { ports: [{ containerPort: 1, hostPort: 80 }] },
      { volumeMounts: [{ name: "tmp", mountPath: "/tmp", mountPropagation: "Bidirectional" }] },
      { securityContext: { procMount: "Unmasked" } },
      { securityContext: { seccompProfile: { type: "Unconfined" } } },
      { volumeDevices: [{ name: "x", devicePath: "/dev/x" }] },
    ].map((fields): (typeof reaches)[number] => [
      `a container's ${JSON.stringify(fields)}`,
      template({ initContainers: [{ name: "x", image: "y", ...fields }] }),
      new RegExp(`^podTemplate\\.spec\\.initContainers\\[x\\]\\.${Object.keys(fields)[0]}\\S* is not allowed`),
    ]),
    ...["csi", "nfs", "ephemeral", "gcePersistentDisk"].map((kind): (typeof reaches)[number] => [
      `a volume of the kind ${kind}`,
      template({ volumes: [{ name: "x", [kind]: {} }] }),
      new RegExp(`^podTemplate\\.spec\\.volumes\\[x\\]\\.${kind} is not allowed`),
    ]),
    [
      "a field that is misspelt, which has the right one beside it",
      template({ nodeSelektor: { gpu: "true" } }),
      /^podTemplate\.spec\.nodeSelektor is no field that Pods of slots may have; did you mean nodeSelector\?$/,
    ],
    [
      "a claim of Berth's own",
      template({ volumes: [{ name: "x", persistentVolumeClaim: { claimName: "berth-state", readOnly: true } }] }),
      /^the claim berth-state is not allowed in Pods of slots: name claim:berth-state in SVC_POD_VOLUMES/,
    ],
    [
      "a label of another Service",
      { container: { pod: { ...podNeeds, template: { metadata: { labels: { app: "shop" } } } } } },
      /^podTemplate\.metadata\.labels: app is not allowed in Pods of slots: name it in SVC_POD_LABELS/,
    ],
    [
      "an annotation that a controller obeys",
      { container: { pod: { ...podNeeds, template: { metadata: { annotations: { "cni.example/net": "x" } } } } } },
      /^podTemplate\.metadata\.annotations: cni\.example\/net is not allowed in Pods of slots/,
    ],
    [
      "the operator's rights by a template that removes the refusal of them",
      template({ automountServiceAccountToken: null }),
      /^podTemplate\.spec\.automountServiceAccountToken is not allowed/,
    ],
    [
      "the operator's rights by a template that replaces everything",
      template({ $patch: "replace", serviceAccountName: "berth-operator", containers: [{ name: "engine" }] }),
      /^podTemplate\.spec\.automountServiceAccountToken is not allowed/,
    ],
    [
      "the bearers of other engines by a volume",
      template({ volumes: [{ name: "x", secret: { secretName: "berth-bearers" } }] }),
      /^the Secret berth-bearers with credentials of this installation is not allowed/,
    ],
    [
      "the records of tokens by a projected volume",
      template({ volumes: [{ name: "x", projected: { sources: [{ secret: { name: "berth-tokens" } }] } }] }),
      /^the Secret berth-tokens with credentials of this installation is not allowed/,
    ],
    [
      "the bearers of other engines by all variables of a Secret",
      template({ containers: [{ name: "engine", envFrom: [{ secretRef: { name: "berth-bearers" } }] }] }),
      /^the Secret berth-bearers with credentials of this installation is not allowed/,
    ],
    [
      "the bearers of other engines by a variable of the manifest",
      { workload: { env: { X: { secretKeyRef: { name: "berth-bearers", key: "other.json" } } } } },
      /^the Secret berth-bearers with credentials of this installation is not allowed/,
    ],
    [
      "the bearers of other engines as its own bearer",
      {
        workload: {
          bearer: { env: "KEY" },
          env: { KEY: { secretKeyRef: { name: "berth-bearers", key: "other.json" } } },
        },
        start: { given: { env: { KEY: "read by the operator" }, bearer: "read by the operator" } },
      },
      /^the Secret berth-bearers with credentials of this installation is not allowed/,
    ],
    [
      "the Secret beside another engine's Pod",
      template({ volumes: [{ name: "x", secret: { secretName: "berth-other-main-0" } }] }),
      /^the Secret berth-other-main-0 with credentials of this installation is not allowed/,
    ],
    [
      "the node's programs for writing",
      { container: { mounts: [{ ...mount("/usr/local/bin"), readOnly: false }] } },
      /^the mount of \/usr\/local\/bin is not allowed/,
    ],
    [
      "the files of the node's root for writing",
      template({
        volumes: [{ name: "x", hostPath: { path: "/root" } }],
        containers: [{ name: "engine", volumeMounts: [{ name: "x", mountPath: "/x" }] }],
      }),
      /^the mount of \/root is not allowed/,
    ],
    [
      "a volume of the template",
      template({ volumes: [{ name: "x", hostPath: { path: "/etc" } }] }),
      /^the mount of \/etc is not allowed/,
    ],
    [
      "a guarded directory by another spelling",
      template({ volumes: [{ name: "x", hostPath: { path: "/./etc" } }] }),
      /^the mount of \/\.\/etc is not allowed in Pods of slots: name path:\/etc /,
    ],
    [
      "a guarded directory without the slash",
      template({ volumes: [{ name: "x", hostPath: { path: "etc/" } }] }),
      /^the mount of etc\/ is not allowed in Pods of slots: name path:\/etc /,
    ],
    [
      "a volume of the template by the name of the models' own",
      {
        site: { models: { directory: "/models", source: { path: "/var/lib/berth/models" } } },
        ...template({ volumes: [{ name: "models", hostPath: { path: "/" } }] }),
      },
      /^the mount of \/ is not allowed/,
    ],
    [
      "a volume of the template by the name of a device",
      template({ volumes: [{ name: "device-0", hostPath: { path: "/var/lib/kubelet" } }] }),
      /^the mount of \/var\/lib\/kubelet is not allowed/,
    ],
    [
      "the operator's rights by a volume",
      template({ volumes: [{ name: "x", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }] }),
      /^podTemplate\.spec\.volumes\[x\]\.projected\.sources\[\]\.serviceAccountToken is not allowed/,
    ],
    [
      "the models for writing by a template that changes their own mount",
      template({ containers: [{ name: "engine", volumeMounts: [{ mountPath: "/models", readOnly: false }] }] }),
      /^the mount at \/models of the container engine would let the Pod write the models of every slot/,
    ],
    [
      "the models for writing by a sidecar",
      template({ containers: [{ name: "x", image: "y", volumeMounts: [{ name: "models", mountPath: "/m" }] }] }),
      /^the mount at \/m of the container x would let/,
    ],
    [
      "the models for writing by a second volume of their claim",
      template({
        volumes: [{ name: "again", persistentVolumeClaim: { claimName: "berth-models" } }],
        initContainers: [{ name: "x", image: "y", volumeMounts: [{ name: "again", mountPath: "/m" }] }],
      }),
      /^the mount at \/m of the container x would let/,
    ],
    [
      "the models for writing by a mount of a directory of theirs",
      {
        site: { models: { directory: "/models", source: { path: "/srv/models" } } },
        container: { mounts: [{ ...mount("/srv//models/blobs/"), readOnly: false }] },
      },
      /^the mount at \/data of the container engine would let/,
    ],
    [
      "a privileged sidecar",
      template({ containers: [{ name: "x", image: "y", securityContext: { privileged: true } }] }),
      /^podTemplate\.spec\.containers\[x\]\.securityContext\.privileged is not allowed/,
    ],
    [
      "the node's disks as root in a container that Berth makes privileged",
      template({ securityContext: { runAsUser: 0, runAsNonRoot: false } }, { devices: ["/dev/dri"] }),
      /^podTemplate\.spec\.containers: engine: root in a privileged container is not allowed/,
    ],
    [
      "the node's disks as root of that container alone",
      template(
        { containers: [{ name: "engine", securityContext: { runAsNonRoot: null, runAsUser: 0 } }] },
        { devices: ["/dev/dri"] },
      ),
      /^podTemplate\.spec\.containers: engine: root in a privileged container is not allowed/,
    ],
    [
      "the node's disks by their group",
      template({ securityContext: { supplementalGroups: [44, 6] } }, { devices: ["/dev/dri"] }),
      /^podTemplate\.spec\.containers: engine: the group 6 in a privileged container is not allowed/,
    ],
    ...["/dev/sda", "/dev/mem", "/dev/", "/dev/../etc", "/dev/dri/../sda", "/dev/mapper"].map(
      (device): (typeof reaches)[number] => [
        `the device ${device}`,
        { container: { devices: [device] } },
        /^the device \/dev\/.* is not allowed/,
      ],
    ),
    [
      "a device in another container",
      template(
        { containers: [{ name: "x", image: "y", volumeMounts: [{ name: "device-0", mountPath: "/d" }] }] },
        { devices: ["/dev/dri"] },
      ),
      /^the device \/dev\/dri in the container x is not allowed/,
    ],
    ...["SYS_ADMIN", "SYS_BOOT", "SYS_TIME", "NET_ADMIN", "ALL", "cap_sys_ptrace"].map(
      (name): (typeof reaches)[number] => [
        `the capability ${name}`,
        template({ initContainers: [{ name: "x", securityContext: { capabilities: { add: [name] } } }] }),
        /^podTemplate\.spec\.initContainers\[x\]\.securityContext\.capabilities\.add is not allowed/,
      ],
    ),
  ];
  for (const [what, given, words] of reaches) {
    it(`does not reach ${what}, unless a setting allows it`, () => {
      assert.throws(
        () => made(given),
        (error) => error instanceof BadWorkload && words.test(error.message),
      );
      assert.ok(made({ ...given, site: { ...given.site, isUnrestricted: true } }).pod);
    });
  }

  it("may have the groups of the node's graphics devices in a privileged container", () => {
    assert.ok(made(template({ securityContext: { supplementalGroups: [44, 104] } }, { devices: ["/dev/dri"] })).pod);
  });

  it("may mount what the installation names", () => {
    const volumes = ["path:/usr/lib/wsl/", "path:/mnt", "claim:data"];
    for (const path of ["/usr/lib/wsl", "/usr/lib/wsl/lib", "/mnt"])
      assert.ok(made({ site: { volumes }, container: { mounts: [mount(path)] } }).pod);
    assert.throws(() => made({ site: { volumes }, container: { mounts: [mount("/mnt2")] } }), BadWorkload);
    const claim = template({ volumes: [{ name: "x", persistentVolumeClaim: { claimName: "data" } }] });
    assert.ok(made({ site: { volumes }, ...claim }).pod);
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
          const pod = { ...podNeeds, template: { metadata: { [field]: { [key]: "gateway" } } } };
          const message = `podTemplate.metadata.${field}: ${key} belongs to Berth`;
          assert.throws(() => made({ site: where, container: { pod } }), { message });
        }
  });

  it("may read the models by a mount of its own, and write a directory beside them", () => {
    const models = { directory: "/models", source: { path: "/srv/models" } };
    for (const given of [mount("/srv/models"), { ...mount("/srv/models-of-others"), readOnly: false }])
      assert.ok(made({ site: { models, volumes: ["path:/srv"] }, container: { mounts: [given] } }).pod);
    assert.ok(made({ site: { models }, container: { mounts: [mount("/srv/models/a")] } }).pod);
  });

  it("is refused where no volume holds the models", () => {
    const { models: _none, ...without } = site;
    const given = { env: {} };
    assert.throws(() => podOf(workload, llama, without, { given, startedAt }), /SVC_POD_MODELS=claim:NAME/);
    assert.ok(podOf(workload, { ...llama, modelFiles: [] }, without, { given, startedAt }).pod);
  });
});
