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
    container: {
      pod: {
        ...podNeeds,
        template: {
          metadata: { labels: { team: "home", "berth.dev/slot": "other" }, annotations: { note: "mine" } },
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
      /^the mount of \/, because of \/proc, would give the Pod its node/,
    ],
    [
      "a socket of the container engine",
      { container: { mounts: [mount("/run/containerd/containerd.sock")] } },
      /because of \/run,/,
    ],
    [
      "the kubelet's files",
      { container: { mounts: [mount("//var/lib//kubelet/pods/")] } },
      /because of \/var\/lib\/kubelet,/,
    ],
    ...["/var/snap/microk8s/current/credentials", "/var/lib/k0s/pki", "/var/lib/minikube/certs"].map(
      (path): (typeof reaches)[number] => [
        `the keys of the cluster at ${path}`,
        { container: { mounts: [mount(path)] } },
        /because of \/var\/(snap|lib\/k0s|lib\/minikube),/,
      ],
    ),
    [
      "a path with two meanings",
      { container: { mounts: [mount("/srv/../etc")] } },
      /^mounts: write \/srv\/\.\.\/etc without "\.\."$/,
    ],
    ["the node's processes", template({ hostPID: true }), /^podTemplate\.spec\.hostPID would give/],
    [
      "the operator's rights",
      template({ automountServiceAccountToken: true }),
      /^podTemplate\.spec\.automountServiceAccountToken/,
    ],
    [
      "the operator's rights by a template that removes the refusal of them",
      template({ automountServiceAccountToken: null, serviceAccountName: "berth-operator" }),
      /^podTemplate\.spec\.automountServiceAccountToken would give/,
    ],
    [
      "the operator's rights by a template that replaces everything",
      template({ $patch: "replace", serviceAccountName: "berth-operator", containers: [{ name: "engine" }] }),
      /^podTemplate\.spec\.automountServiceAccountToken would give/,
    ],
    [
      "the bearers of other engines by a volume",
      template({ volumes: [{ name: "x", secret: { secretName: "berth-bearers" } }] }),
      /^the Secret berth-bearers would give the Pod the credentials/,
    ],
    [
      "the records of tokens by a projected volume",
      template({ volumes: [{ name: "x", projected: { sources: [{ secret: { name: "berth-tokens" } }] } }] }),
      /^the Secret berth-tokens would give the Pod the credentials/,
    ],
    [
      "the bearers of other engines by all variables of a Secret",
      template({ containers: [{ name: "engine", envFrom: [{ secretRef: { name: "berth-bearers" } }] }] }),
      /^the Secret berth-bearers would give the Pod the credentials/,
    ],
    [
      "the bearers of other engines by a variable of the manifest",
      { workload: { env: { X: { secretKeyRef: { name: "berth-bearers", key: "other.json" } } } } },
      /^the Secret berth-bearers would give the Pod the credentials/,
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
      /^the Secret berth-bearers would give the Pod the credentials/,
    ],
    [
      "the Secret beside another engine's Pod",
      template({ volumes: [{ name: "x", secret: { secretName: "berth-other-main-0" } }] }),
      /^the Secret berth-other-main-0 would give the Pod the credentials/,
    ],
    [
      "the node's programs for writing",
      { container: { mounts: [{ ...mount("/usr/local/bin"), readOnly: false }] } },
      /^the mount of \/usr\/local\/bin for writing, because of \/usr, would give the Pod its node/,
    ],
    [
      "the files of the node's root for writing",
      template({
        volumes: [{ name: "x", hostPath: { path: "/root" } }],
        containers: [{ name: "engine", volumeMounts: [{ name: "x", mountPath: "/x" }] }],
      }),
      /^the mount of \/root for writing would give/,
    ],
    [
      "a volume of the template",
      template({ volumes: [{ name: "x", hostPath: { path: "/etc" } }] }),
      /^the mount of \/etc would give/,
    ],
    [
      "a guarded directory by another spelling",
      template({ volumes: [{ name: "x", hostPath: { path: "/./etc" } }] }),
      /^the mount of \/\.\/etc would give/,
    ],
    [
      "a guarded directory without the slash",
      template({ volumes: [{ name: "x", hostPath: { path: "etc/" } }] }),
      /^the mount of etc\/ would give/,
    ],
    [
      "a volume of the template by the name of the models' own",
      {
        site: { models: { directory: "/models", source: { path: "/var/lib/berth/models" } } },
        ...template({ volumes: [{ name: "models", hostPath: { path: "/" } }] }),
      },
      /^the mount of \/, because of \/proc, would give/,
    ],
    [
      "a volume of the template by the name of a device",
      template({ volumes: [{ name: "device-0", hostPath: { path: "/var/lib/kubelet" } }] }),
      /^the mount of \/var\/lib\/kubelet would give/,
    ],
    [
      "the operator's rights by a volume",
      template({ volumes: [{ name: "x", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }] }),
      /^podTemplate\.spec\.volumes: x: a service account token would give/,
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
      /^podTemplate\.spec\.containers: x: privileged would give/,
    ],
    [
      "the node's disks as root in a container that Berth makes privileged",
      template({ securityContext: { runAsUser: 0, runAsNonRoot: false } }, { devices: ["/dev/dri"] }),
      /^podTemplate\.spec\.containers: engine: root in a privileged container would give/,
    ],
    [
      "the node's disks as root of that container alone",
      template(
        { containers: [{ name: "engine", securityContext: { runAsNonRoot: null, runAsUser: 0 } }] },
        { devices: ["/dev/dri"] },
      ),
      /^podTemplate\.spec\.containers: engine: root in a privileged container would give/,
    ],
    [
      "the node's disks by their group",
      template({ securityContext: { supplementalGroups: [44, 6] } }, { devices: ["/dev/dri"] }),
      /^podTemplate\.spec\.containers: engine: the group 6 in a privileged container would give/,
    ],
    [
      "a capability",
      template({ initContainers: [{ name: "x", securityContext: { capabilities: { add: ["SYS_ADMIN"] } } }] }),
      /initContainers: x: the capability SYS_ADMIN would give/,
    ],
    [
      "a capability in another spelling",
      template({ initContainers: [{ name: "x", securityContext: { capabilities: { add: ["cap_sys_admin"] } } }] }),
      /initContainers: x: the capability cap_sys_admin would give/,
    ],
  ];
  for (const [what, given, words] of reaches) {
    it(`does not reach ${what}, unless a setting allows it`, () => {
      assert.throws(
        () => made(given),
        (error) => error instanceof BadWorkload && words.test(error.message),
      );
      assert.ok(made({ ...given, site: { ...given.site, allowsHostMounts: true } }).pod);
    });
  }

  it("may have the groups of the node's graphics devices in a privileged container", () => {
    assert.ok(made(template({ securityContext: { supplementalGroups: [44, 104] } }, { devices: ["/dev/dri"] })).pod);
  });

  it("may read the node's drivers", () => {
    assert.ok(made({ container: { mounts: [mount("/usr/lib/wsl")] } }).pod);
  });

  it("may read the models by a mount of its own, and write a directory beside them", () => {
    const models = { directory: "/models", source: { path: "/srv/models" } };
    for (const given of [mount("/srv/models"), { ...mount("/srv/models-of-others"), readOnly: false }])
      assert.ok(made({ site: { models }, container: { mounts: [given] } }).pod);
  });

  it("is refused where no volume holds the models", () => {
    const { models: _none, ...without } = site;
    const given = { env: {} };
    assert.throws(() => podOf(workload, llama, without, { given, startedAt }), /SVC_POD_MODELS=claim:NAME/);
    assert.ok(podOf(workload, { ...llama, modelFiles: [] }, without, { given, startedAt }).pod);
  });
});
