import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { observedOf } from "../../../src/runtimes/kubernetes/observed.ts";
import { readPod, type Pod } from "../../../src/runtimes/kubernetes/pod-object.ts";
import { podLabels, podName } from "../../../src/runtimes/kubernetes/pod-label.ts";
import { workload } from "./manifests.ts";

const image = "registry.lan/llama:b1";
const createdAt = "2026-11-22T21:00:00Z";
const finishedAt = "2026-11-22T21:05:00Z";

type Status = Readonly<Record<string, unknown>>;

interface Written {
  readonly status?: Status;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly nodeName?: string | undefined;
  readonly limits?: Readonly<Record<string, string>>;
}

/** As the API server writes it, without the time of its start, which Pods of earlier versions lack. */
function podWith({ status, metadata, limits, ...rest }: Written): Pod {
  const nodeName = "nodeName" in rest ? rest.nodeName : "nas";
  const pod = readPod(
    {
      metadata: {
        name: podName(workload),
        uid: "7d",
        creationTimestamp: createdAt,
        labels: podLabels(workload, "home"),
        annotations: { "berth.dev/port": String(workload.port) },
        ...metadata,
      },
      spec: {
        ...(nodeName === undefined ? {} : { nodeName }),
        containers: [{ name: "engine", image, ...(limits === undefined ? {} : { resources: { limits } }) }],
      },
      status: { phase: "Pending", ...status },
    },
    "home",
  );
  assert.ok(pod !== undefined);
  return pod;
}

const engine = (status: Status): Status => ({
  containerStatuses: [{ name: "engine", restartCount: 0, lastState: {}, ...status }],
});
const waiting = (reason: string, message: string): Status => engine({ state: { waiting: { reason, message } } });
const ended = (terminated: object): Status =>
  engine({
    restartCount: 1,
    state: { running: { startedAt: finishedAt } },
    lastState: { terminated: { finishedAt, ...terminated } },
  });
const scheduled = { type: "PodScheduled", status: "True" };
const disrupted = (reason: string, message: string): Status => ({
  conditions: [{ type: "DisruptionTarget", status: "True", reason, message }],
});
const oneNode = (why: string): Written => ({
  nodeName: undefined,
  status: {
    conditions: [
      {
        type: "PodScheduled",
        status: "False",
        reason: "Unschedulable",
        message: `0/1 nodes are available: ${why}. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.`,
      },
    ],
  },
});

describe("an engine that has not begun", () => {
  const rows: readonly [title: string, pod: Written, reason: string, isStuck: boolean, message: RegExp][] = [
    ["has no node yet", { nodeName: undefined, status: {} }, "Scheduling", false, /^its Pod waits for a node$/],
    [
      "finds no free GPU",
      oneNode("1 Insufficient amd.com/gpu"),
      "Unschedulable",
      true,
      /^no node takes its Pod: 0\/1 nodes .*\(other Pods hold every amd\.com\/gpu, or its device plugin does not run: give slots that share it one SlotGroup\)$/,
    ],
    [
      "finds no memory",
      oneNode("1 Insufficient memory"),
      "Unschedulable",
      true,
      /\(lower resources\.memoryBytes, or free memory\)$/,
    ],
    [
      "finds no processor",
      oneNode("1 Insufficient cpu"),
      "Unschedulable",
      true,
      /\(lower resources\.cpus, or free processors\)$/,
    ],
    [
      "tolerates no taint",
      oneNode("1 node(s) had untolerated taint {gpu: true}"),
      "Unschedulable",
      true,
      /\(tolerate it in podTemplate\.spec\.tolerations\)$/,
    ],
    [
      "has no claim",
      oneNode('persistentvolumeclaim "berth-models" not found'),
      "Unschedulable",
      true,
      /\(its volume claim is not bound: see kubectl get pvc\)$/,
    ],
    [
      "fits no selector",
      oneNode("1 node(s) didn't match Pod's node affinity/selector"),
      "Unschedulable",
      true,
      /\(change podTemplate\.spec\.nodeSelector or affinity\)$/,
    ],
    [
      "waits behind a gate",
      {
        nodeName: undefined,
        status: {
          conditions: [
            {
              type: "PodScheduled",
              status: "False",
              reason: "SchedulingGated",
              message: "Scheduling is blocked due to non-empty scheduling gates",
            },
          ],
        },
      },
      "SchedulingGated",
      true,
      /^its Pod waits behind a scheduling gate/,
    ],
    [
      "waits for volumes and network",
      {
        status: {
          conditions: [scheduled, { type: "PodReadyToStartContainers", status: "False" }],
          ...waiting("ContainerCreating", ""),
        },
      },
      "Preparing",
      false,
      /^node nas prepares its volumes and network; kubectl describe pod berth-primary-main-0 shows more$/,
    ],
    [
      "waits for its image",
      {
        status: {
          conditions: [scheduled, { type: "PodReadyToStartContainers", status: "True" }],
          ...waiting("ContainerCreating", ""),
        },
      },
      "Pulling",
      false,
      /^node nas fetches the image registry\.lan\/llama:b1; kubectl describe pod berth-primary-main-0 shows more$/,
    ],
    [
      "waits for a Secret",
      { status: waiting("CreateContainerConfigError", 'secret "hub" not found') },
      "NoSecret",
      true,
      /^its Pod waits for what it names: secret "hub" not found; create it$/,
    ],
  ];
  for (const [title, pod, reason, isStuck, message] of rows) {
    it(title, () => {
      const { phase, isListening, pending } = observedOf(podWith(pod), { isBeingRemoved: false });
      assert.deepEqual([phase, isListening, pending?.reason, pending?.isStuck], ["running", false, reason, isStuck]);
      assert.match(pending?.message ?? "", message);
    });
  }
});

describe("an engine that has ended, or cannot begin", () => {
  const rows: readonly [title: string, pod: Written, reason: string, message: RegExp][] = [
    [
      "exited",
      { status: ended({ exitCode: 7, reason: "Error", message: "loading\nerror loading model\n" }) },
      "Exited",
      /^exited with code 7: error loading model$/,
    ],
    [
      "exited well",
      { status: engine({ state: { terminated: { exitCode: 0, reason: "Completed", finishedAt } } }) },
      "Exited",
      /^exited with code 0$/,
    ],
    [
      "waits for the kubelet's next start",
      {
        status: engine({
          restartCount: 4,
          state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 40s restarting failed container" } },
          lastState: { terminated: { exitCode: 1, reason: "Error", finishedAt } },
        }),
      },
      "Exited",
      /^exited with code 1$/,
    ],
    ["was killed", { status: ended({ exitCode: 137, reason: "Error" }) }, "Signalled", /^ended by SIGKILL$/],
    ["crashed", { status: ended({ exitCode: 139, reason: "Error" }) }, "Signalled", /^ended by SIGSEGV$/],
    [
      "ran out of its memory",
      { limits: { memory: "1073741824" }, status: ended({ exitCode: 137, reason: "OOMKilled" }) },
      "OOMKilled",
      /^the kernel killed it: out of memory \(its limit is 1073741824 bytes, resources\.memoryBytes\)$/,
    ],
    [
      "names no program of its image",
      {
        status: engine({
          state: { waiting: { reason: "RunContainerError", message: "" } },
          lastState: {
            terminated: {
              exitCode: 128,
              reason: "StartError",
              finishedAt,
              message:
                'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/opt/no-such-engine": stat /opt/no-such-engine: no such file or directory: unknown',
            },
          },
        }),
      },
      "StartFailed",
      /^its program cannot be started: exec: "\/opt\/no-such-engine": stat \/opt\/no-such-engine: no such file or directory$/,
    ],
    [
      "would run as root",
      {
        status: waiting(
          "CreateContainerConfigError",
          "container has runAsNonRoot and image will run as root (pod: ...)",
        ),
      },
      "StartFailed",
      /set runAsUser in podTemplate\.spec\.securityContext$/,
    ],
    [
      "has no image",
      {
        status: waiting(
          "ErrImagePull",
          `rpc error: code = NotFound desc = failed to pull and unpack image "${image}": ${image}: not found`,
        ),
      },
      "ImageNotFound",
      /^the image registry\.lan\/llama:b1 does not exist \(rpc error/,
    ],
    [
      "may not fetch its image",
      {
        status: waiting(
          "ImagePullBackOff",
          `Back-off pulling image "${image}": ErrImagePull: unexpected status: 401 Unauthorized`,
        ),
      },
      "Unauthorized",
      /is refused by its registry: name a Secret with its credentials in podTemplate\.spec\.imagePullSecrets/,
    ],
    [
      "has a private image",
      {
        status: waiting(
          "ErrImagePull",
          "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope",
        ),
      },
      "ImageNotFound",
      /does not exist, or its registry wants credentials/,
    ],
    [
      "has an image of another machine",
      { status: waiting("ErrImagePull", "no match for platform in manifest: not found") },
      "WrongPlatform",
      /is not made for the node's processor/,
    ],
    [
      "has a full disk",
      { status: waiting("ErrImagePull", "write /var/lib: no space left on device") },
      "PullFailed",
      /does not fit on the node's disk/,
    ],
    [
      "has a silent registry",
      { status: waiting("ErrImagePull", "dial tcp 10.0.0.9:443: i/o timeout") },
      "PullFailed",
      /could not be fetched \(dial tcp/,
    ],
    [
      "names no image",
      { status: waiting("InvalidImageName", "couldn't parse image name") },
      "StartFailed",
      /is no name of an image/,
    ],
    [
      "must not fetch its image",
      { status: waiting("ErrImageNeverPull", "not present with pull policy of Never") },
      "ImageNotFound",
      /imagePullPolicy Never/,
    ],
    [
      "was evicted",
      { status: { phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." } },
      "Evicted",
      /^node nas evicted its Pod: The node was low on resource: memory\.; set resources\.memoryBytes to what it needs/,
    ],
    [
      "was drained away",
      { status: disrupted("EvictionByEvictionAPI", "Eviction API: evicting") },
      "Evicted",
      /^its Pod was evicted, as when node nas is drained: Eviction API: evicting$/,
    ],
    [
      "was preempted",
      {
        status: disrupted(
          "PreemptionByScheduler",
          "default-scheduler: preempting to accommodate a higher priority pod",
        ),
      },
      "Preempted",
      /^its Pod was preempted for a Pod of higher priority: .*; a priorityClassName in podTemplate\.spec prevents that$/,
    ],
    [
      "lost its node",
      { status: disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint") },
      "NodeLost",
      /^node nas is lost or tainted: .*; see kubectl describe node nas$/,
    ],
    [
      "was not admitted",
      {
        status: {
          phase: "Failed",
          reason: "UnexpectedAdmissionError",
          message: "Pod was rejected: Allocate failed due to requested number of devices unavailable for amd.com/gpu",
        },
      },
      "NotAdmitted",
      /^its Pod has ended on node nas \(UnexpectedAdmissionError\): Pod was rejected: Allocate failed/,
    ],
    [
      "was deleted by somebody",
      {
        metadata: { deletionTimestamp: finishedAt },
        status: engine({ state: { running: { startedAt: createdAt } }, started: true }),
      },
      "PodDeleted",
      /^its Pod berth-primary-main-0 was deleted from outside$/,
    ],
    [
      "was started again by the kubelet",
      { status: engine({ restartCount: 2, state: { running: { startedAt: finishedAt } } }) },
      "Unknown",
      /^it ended, and the kubelet started it again$/,
    ],
  ];
  for (const [title, pod, reason, message] of rows) {
    it(title, () => {
      const { phase, isListening, exit } = observedOf(podWith(pod), { isBeingRemoved: false });
      assert.deepEqual([phase, isListening, exit?.reason], ["exited", false, reason]);
      assert.match(exit?.message ?? "", message);
      assert.ok(!Number.isNaN(Date.parse(exit?.at ?? "")));
    });
  }
});

describe("an engine behind init containers", () => {
  const pending = (init: object, status: object) => {
    const object = {
      metadata: { name: "x", uid: "1", creationTimestamp: createdAt, labels: podLabels(workload, "home") },
      spec: { nodeName: "nas", containers: [{ name: "engine", image }], initContainers: [{ name: "helper", ...init }] },
      status: {
        phase: "Pending",
        conditions: [{ type: "PodReadyToStartContainers", status: "True" }],
        initContainerStatuses: [{ name: "helper", started: true, ...status }],
      },
    };
    const pod = readPod(object, "home");
    assert.ok(pod !== undefined);
    return observedOf(pod, { isBeingRemoved: false }).pending?.reason;
  };
  const isRunning = { state: { running: { startedAt: createdAt } } };

  it("waits for the end of an init container, and only for the start of a sidecar", () => {
    assert.equal(pending({}, isRunning), "Initializing");
    assert.equal(pending({}, { state: { terminated: { exitCode: 0 } } }), "Pulling");
    assert.equal(pending({ restartPolicy: "Always" }, isRunning), "Pulling");
    assert.equal(pending({ restartPolicy: "Always" }, { state: { waiting: {} } }), "Initializing");
  });
});

describe("an engine that runs", () => {
  const running = {
    podIP: "10.42.0.7",
    ...engine({ state: { running: { startedAt: "2026-11-22T21:02:00Z" } }, started: true }),
  };

  it("is reached at its Pod's address, and began when its program did", () => {
    assert.deepEqual(observedOf(podWith({ status: running }), { isBeingRemoved: false, bearer: "b" }), {
      slot: "primary",
      role: "main",
      ordinal: 0,
      hash: workload.hash,
      host: "10.42.0.7",
      port: 8080,
      isPortTaken: false,
      startedAt: new Date(createdAt),
      begunAt: new Date("2026-11-22T21:02:00Z"),
      id: { podName: "berth-primary-main-0" },
      phase: "running",
      isListening: true,
      bearer: "b",
    });
  });

  it("tells the digest of its image, and no number that only its node knows", () => {
    const digest = `sha256:${"ab".repeat(32)}`;
    const told = (imageID: string): string | undefined => {
      const status = { ...running, ...engine({ state: { running: { startedAt: createdAt } }, imageID }) };
      return observedOf(podWith({ status }), { isBeingRemoved: false }).imageDigest;
    };
    assert.equal(told(`${image}@${digest}`), digest);
    assert.equal(told(`docker-pullable://${image}@${digest}`), digest);
    assert.equal(told(digest), undefined);
    assert.equal(told(""), undefined);
  });

  it("does not listen before the kubelet's startup probe has passed", () => {
    const status = { ...running, ...engine({ state: { running: { startedAt: createdAt } }, started: false }) };
    assert.equal(observedOf(podWith({ status }), { isBeingRemoved: false }).isListening, false);
  });

  it("still runs while this operator removes it", () => {
    const pod = podWith({ metadata: { deletionTimestamp: finishedAt }, status: running });
    const { phase, exit } = observedOf(pod, { isBeingRemoved: true });
    assert.deepEqual([phase, exit], ["running", undefined]);
  });

  it("keeps the end that was seen first, whatever the kubelet does meanwhile", () => {
    const exit = { reason: "Exited", code: 3, message: "exited with code 3", at: finishedAt } as const;
    assert.deepEqual(observedOf(podWith({ status: running }), { isBeingRemoved: false, exit }).exit, exit);
  });
});

describe("a Pod", () => {
  it("is not ours with another instance's labels, or without a slot, a role or a name", () => {
    const labels = podLabels(workload, "home");
    const { "berth.dev/slot": _slot, ...noSlot } = labels;
    const ofLabels = (given: object): unknown =>
      readPod({ metadata: { name: "x", uid: "1", creationTimestamp: createdAt, labels: given }, spec: {} }, "home");
    assert.equal(ofLabels({ ...labels, "berth.dev/instance": "other" }), undefined);
    assert.equal(ofLabels(noSlot), undefined);
    assert.equal(ofLabels({ ...labels, "berth.dev/role": "leader" }), undefined);
    assert.equal(readPod({ metadata: { labels }, spec: {} }, "home"), undefined);
    assert.ok(ofLabels(labels));
  });
});
