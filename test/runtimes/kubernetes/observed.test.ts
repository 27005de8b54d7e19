import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { observedOf } from "../../../src/runtimes/kubernetes/observed.ts";
import { readPod, type Pod } from "../../../src/runtimes/kubernetes/pod-object.ts";
import { podAnnotations, podLabels, podName } from "../../../src/runtimes/kubernetes/pod-label.ts";
import { workload } from "./manifests.ts";

const image = "registry.lan/llama:b1";
const createdAt = "2026-11-22T21:00:00Z";
const annotations = podAnnotations(workload, { hasBearer: false, startedAt: new Date(createdAt) });
const finishedAt = "2026-11-22T21:05:00Z";

type Status = Readonly<Record<string, unknown>>;

interface Written {
  readonly status?: Status;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly nodeName?: string | undefined;
  readonly limits?: Readonly<Record<string, string>>;
}

/** As the API server writes it. */
function podWith({ status, metadata, limits, ...rest }: Written): Pod {
  const nodeName = "nodeName" in rest ? rest.nodeName : "nas";
  const pod = readPod(
    {
      metadata: {
        name: podName(workload),
        uid: "7d",
        labels: podLabels(workload, "home"),
        annotations,
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
const waiting = (reason: string, message: string): Written => ({
  status: engine({ state: { waiting: { reason, message } } }),
});
const lastEnd = (terminated: object): Status => ({
  restartCount: 1,
  lastState: { terminated: { finishedAt, ...terminated } },
});
const ended = (terminated: object): Written => ({
  status: engine({ state: { running: { startedAt: finishedAt } }, ...lastEnd(terminated) }),
});
const failed = (reason: string, message: string): Written => ({ status: { phase: "Failed", reason, message } });
const creating = (isReady: boolean): Written => ({
  status: {
    conditions: [
      { type: "PodScheduled", status: "True" },
      { type: "PodReadyToStartContainers", status: isReady ? "True" : "False" },
    ],
    ...waiting("ContainerCreating", "").status,
  },
});
const disrupted = (reason: string, message: string): Written => ({
  status: { conditions: [{ type: "DisruptionTarget", status: "True", reason, message }] },
});
const unscheduled = (reason: string, message: string): Written => ({
  nodeName: undefined,
  status: { conditions: [{ type: "PodScheduled", status: "False", reason, message }] },
});
const oneNode = (why: string): Written =>
  unscheduled(
    "Unschedulable",
    `0/1 nodes are available: ${why}. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.`,
  );

it("an engine that has not begun waits with its reason and a remedy", () => {
  const more = "; kubectl describe pod berth-primary-main-0 shows more";
  type Row = readonly [pod: Written, reason: string, isStuck: boolean, start: string, end?: string];
  const rows: readonly Row[] = [
    [{ nodeName: undefined, status: {} }, "Scheduling", false, "its Pod waits for a node"],
    [
      unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
      "SchedulingGated",
      true,
      "its Pod waits behind a scheduling gate: Scheduling is blocked due to non-empty scheduling gates",
    ],
    [creating(false), "Preparing", false, `node nas prepares its volumes and network${more}`],
    [creating(true), "Pulling", false, `node nas fetches the image ${image}${more}`],
    [
      waiting("CreateContainerConfigError", 'secret "hub" not found'),
      "NoSecret",
      true,
      'its Pod waits for what it names: secret "hub" not found; create it',
    ],
    ...[
      [
        "1 Insufficient amd.com/gpu",
        "other Pods hold every amd.com/gpu, or its device plugin does not run: give slots that share it one SlotGroup",
      ],
      ["1 Insufficient memory", "lower resources.memoryBytes, or free memory"],
      ["1 Insufficient cpu", "lower resources.cpus, or free processors"],
      ["1 node(s) had untolerated taint {gpu: true}", "tolerate it in podTemplate.spec.tolerations"],
      ['persistentvolumeclaim "berth-models" not found', "its volume claim is not bound: see kubectl get pvc"],
      ["1 node(s) didn't match Pod's node affinity/selector", "change podTemplate.spec.nodeSelector or affinity"],
    ].map(([why = "", remedy = ""]): Row => [
      oneNode(why),
      "Unschedulable",
      true,
      `no node takes its Pod: 0/1 nodes are available: ${why}`,
      `(${remedy})`,
    ]),
  ];
  for (const [pod, reason, isStuck, start, end = start] of rows) {
    const { phase, isListening, pending } = observedOf(podWith(pod), { isBeingRemoved: false });
    assert.deepEqual([phase, isListening, pending?.reason, pending?.isStuck], ["running", false, reason, isStuck]);
    const { message = "" } = pending ?? {};
    assert.ok(message.startsWith(start) && message.endsWith(end), message);
  }
});

describe("an engine that has ended, or cannot begin", () => {
  const pull = (said: string): Written => waiting("ErrImagePull", said);
  const terminated = { exitCode: 0, reason: "Completed", finishedAt };
  const backOff = { reason: "CrashLoopBackOff", message: "back-off 40s restarting failed container" };
  const noProgram =
    'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/opt/none": stat /opt/none: no such file or directory: unknown';
  const running = { state: { running: { startedAt: createdAt } } };
  const reasons: Readonly<Record<string, readonly (readonly [pod: Written, message: RegExp])[]>> = {
    Exited: [
      [ended({ exitCode: 7, message: "loading\nerror loading model\n" }), /^exited with code 7: error loading model$/],
      [{ status: engine({ state: { terminated } }) }, /^exited with code 0$/],
      // Until the kubelet's next start.
      [
        { status: engine({ ...lastEnd({ exitCode: 1 }), restartCount: 4, state: { waiting: backOff } }) },
        /^exited with code 1$/,
      ],
    ],
    Signalled: [
      [ended({ exitCode: 137, reason: "Error" }), /^ended by SIGKILL$/],
      [ended({ exitCode: 139, reason: "Error" }), /^ended by SIGSEGV$/],
    ],
    OOMKilled: [
      [
        { limits: { memory: "1073741824" }, ...ended({ exitCode: 137, reason: "OOMKilled" }) },
        /^the kernel killed it: out of memory \(its limit is 1073741824 bytes, resources\.memoryBytes\)$/,
      ],
    ],
    StartFailed: [
      [
        ended({ exitCode: 128, reason: "StartError", message: noProgram }),
        /^its program cannot be started: exec: "\/opt\/none": stat \/opt\/none: no such file or directory$/,
      ],
      [
        waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root (pod: ...)"),
        /set runAsUser in podTemplate\.spec\.securityContext$/,
      ],
      [waiting("InvalidImageName", "couldn't parse image name"), /is no name of an image/],
    ],
    ImageNotFound: [
      [
        pull(`rpc error: code = NotFound desc = failed to pull and unpack image "${image}": ${image}: not found`),
        /^the image registry\.lan\/llama:b1 does not exist \(rpc error/,
      ],
      [
        pull("pull access denied, repository does not exist or may require authorization: insufficient_scope"),
        /does not exist, or its registry wants credentials/,
      ],
      [waiting("ErrImageNeverPull", "not present with pull policy of Never"), /imagePullPolicy Never/],
    ],
    Unauthorized: [
      [
        waiting("ImagePullBackOff", "Back-off pulling image: ErrImagePull: unexpected status: 401 Unauthorized"),
        /is refused by its registry: name a Secret with its credentials in podTemplate\.spec\.imagePullSecrets/,
      ],
    ],
    WrongPlatform: [[pull("no match for platform in manifest: not found"), /is not made for the node's processor/]],
    PullFailed: [
      [pull("write /var/lib: no space left on device"), /does not fit on the node's disk/],
      [pull("dial tcp 10.0.0.9:443: i/o timeout"), /could not be fetched \(dial tcp/],
    ],
    Evicted: [
      [
        failed("Evicted", "The node was low on resource: memory."),
        /^node nas evicted its Pod: The node was low on resource: memory\.; set resources\.memoryBytes to what it needs/,
      ],
      [
        disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
        /^its Pod was evicted, as when node nas is drained: Eviction API: evicting$/,
      ],
    ],
    Preempted: [
      [
        disrupted("PreemptionByScheduler", "preempting to accommodate a higher priority pod"),
        /^its Pod was preempted for a Pod of higher priority: .*; a priorityClassName in podTemplate\.spec prevents that$/,
      ],
    ],
    NodeLost: [
      [
        disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        /^node nas is lost or tainted: .*; see kubectl describe node nas$/,
      ],
    ],
    NotAdmitted: [
      [
        failed("UnexpectedAdmissionError", "Pod was rejected: no device"),
        /^its Pod has ended on node nas \(UnexpectedAdmissionError\): Pod was rejected: no device/,
      ],
    ],
    PodDeleted: [
      [
        { metadata: { deletionTimestamp: finishedAt }, status: engine({ ...running, started: true }) },
        /^its Pod berth-primary-main-0 was deleted from outside$/,
      ],
    ],
    Unknown: [[{ status: engine({ restartCount: 2, ...running }) }, /^it ended, and the kubelet started it again$/]],
  };
  for (const [reason, rows] of Object.entries(reasons))
    for (const [pod, message] of rows) {
      it(`${reason}: ${message.source}`, () => {
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
      metadata: { name: "x", uid: "1", labels: podLabels(workload, "home"), annotations },
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
  it("is not ours with another instance's labels, or without a slot, a role, an ordinal or a name", () => {
    const labels = podLabels(workload, "home");
    const { "berth.dev/slot": _slot, ...noSlot } = labels;
    const { "berth.dev/ordinal": _ordinal, ...noOrdinal } = labels;
    const ofLabels = (given: object): unknown =>
      readPod({ metadata: { name: "x", uid: "1", labels: given, annotations }, spec: {} }, "home");
    assert.equal(ofLabels({ ...labels, "berth.dev/instance": "other" }), undefined);
    assert.equal(ofLabels(noSlot), undefined);
    assert.equal(ofLabels(noOrdinal), undefined);
    assert.equal(ofLabels({ ...labels, "berth.dev/role": "leader" }), undefined);
    assert.equal(readPod({ metadata: { labels }, spec: {} }, "home"), undefined);
    assert.ok(ofLabels(labels));
  });
});
