import { join } from "node:path";
import { startControlPlane } from "../../support/kube/control-plane.ts";
import { installKinds } from "../../support/kube/crds.ts";
import { openSlotSite } from "../../support/kube/site.ts";
import { atLeast, atMost, figure, median, range, told, type Bar } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { nginxEngine } from "../machine/nginx.ts";
import { openSite, type Site } from "../machine/site.ts";
import { runWrk } from "../machine/wrk.ts";
import { requestBody } from "./chat.ts";

/** Short, and many of them: the speed of a shared machine changes within seconds. */
const seconds = 2;
const turnsPerRound = 4;
const connections = 32;
/** V8 goes on optimising for the first hundred thousand requests: each process has had as many before it is measured. */
const warmUpRequests = 60_000;

interface Side {
  readonly port: number;
  readonly pid: number;
  /** For the script of its load. */
  readonly directory: string;
}

type Sides<T> = readonly [files: T, others: T, cluster: T];

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** What etcd, the API server and the cluster's operator took meanwhile, in cores. */
  readonly clusterCores: number;
}

const said = ({ perSecond, cpuMicros, clusterCores }: Sample): string =>
  `${figure(perSecond)}/s, ${figure(cpuMicros)} µs, cluster ${figure(clusterCores)} cores`;

/**
 * A gateway whose slots are custom resources beside two whose slots are files: how much these two differ says what a
 * ratio is worth. The cluster runs whichever is loaded. Loaded in the same seconds, all have the same machine. Every round
 * starts new gateways, since V8 optimises each process in its own way.
 */
export const k8s: Bar = {
  name: "k8s",
  about:
    "throughput through a gateway on the cluster's store, against file mode; needs BERTH_TEST_KUBE=$(hack/kube.sh)",
  async run(bench) {
    const name = "throughput on the cluster's store, of file mode's";
    if (process.env["BERTH_TEST_KUBE"] === undefined) return [told(name, "no cluster: BERTH_TEST_KUBE is not set")];
    await using plane = await startControlPlane();
    await installKinds(plane);
    await using at = await openSlotSite(plane);
    await using files = await openSite({ slotPorts: 1 });
    await using cluster = await openSite({ slotPorts: 1 });
    const engineOf = ({ directory, enginePort }: Site): Promise<readonly string[]> =>
      nginxEngine(join(directory, "engine"), { port: enginePort, model: "fixed" });
    await files.slot("bench", { model: { default: "fixed" }, command: await engineOf(files) });
    await files.operator();
    await files.state("bench", "ready");
    await at.apply("bench", { engine: "custom", model: { default: "fixed" }, command: await engineOf(cluster) });
    const operator = await cluster.operator({ env: at.env });
    await at.pid("bench");
    const clusterPids = [...plane.pids(), operator.pid];
    const clusterSeconds = (): number => clusterPids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
    const load = async ({ port, pid, directory }: Side, forSeconds: number): Promise<Sample & { requests: number }> => {
      const [own, others] = [cpuSeconds(pid), clusterSeconds()];
      const asked = { directory, port, body: requestBody, connections, seconds: forSeconds };
      const { perSecond, requests, failures } = await runWrk(asked);
      if (failures > 0) throw new Error(`${failures} requests failed at port ${port}`);
      return {
        perSecond,
        requests,
        cpuMicros: ((cpuSeconds(pid) - own) / requests) * 1_000_000,
        clusterCores: (clusterSeconds() - others) / forSeconds,
      };
    };
    const found = new Map<string, number[]>();
    const note = (key: string, value: number): void => void found.set(key, [...(found.get(key) ?? []), value]);
    for (let round = 0; round < bench.rounds; round += 1) {
      const started = [
        await files.gateway(),
        await files.gateway({ port: files.sparePort }),
        await cluster.gateway({ env: at.env }),
      ] as const;
      const [ofFiles, ofOthers, ofCluster] = started;
      const sides = [
        { port: files.gatewayPort, pid: ofFiles.pid, directory: files.directory },
        { port: files.sparePort, pid: ofOthers.pid, directory: files.directory },
        { port: cluster.gatewayPort, pid: ofCluster.pid, directory: cluster.directory },
      ] as const;
      for (const side of sides) for (let had = 0; had < warmUpRequests; had += (await load(side, 1)).requests);
      for (let turn = 0; turn < turnsPerRound; turn += 1)
        for (const how of ["in turn", "at once"] as const) {
          const [one, two, three] = await loaded(how, turn % 2 === 1, sides, load);
          bench.say(`${how}: files ${said(one)}; also files ${said(two)}; cluster ${said(three)}`);
          note(how, three.perSecond / ((one.perSecond + two.perSecond) / 2));
          note(`${how}, null`, two.perSecond / one.perSecond);
          note("cpu", three.cpuMicros / ((one.cpuMicros + two.cpuMicros) / 2));
          note("cpu, null", two.cpuMicros / one.cpuMicros);
          for (const { cpuMicros } of [one, two]) note("files", cpuMicros);
          note("cluster", three.cpuMicros);
          if (how === "at once") continue;
          note("cores of files", (one.clusterCores + two.clusterCores) / 2);
          note("cores of cluster", three.clusterCores);
        }
      for (const gateway of started) await gateway.stop();
    }
    const of = (key: string): readonly number[] => found.get(key) ?? [];
    const stated = (key: string): string => `${figure(median(of(key)))}×${range(of(key))}`;
    const perCpu = (key: string): string => figure(1_000_000 / median(of(key)));
    const cores = (key: string): string => `${figure(median(of(key)))} cores${range(of(key))}`;
    return [
      atLeast(`${name}, all loaded at once`, median(of("at once")), 0.95, "×", range(of("at once"))),
      told("of the two gateways in file mode then", stated("at once, null")),
      atLeast(`${name}, in turn`, median(of("in turn")), 0.95, "×", range(of("in turn"))),
      told("of the two gateways in file mode then", stated("in turn, null")),
      atMost(
        "the gateway's processor time for a request, of file mode's",
        median(of("cpu")),
        1.05,
        "×",
        range(of("cpu")),
      ),
      told("of the two gateways in file mode", stated("cpu, null")),
      told("requests for a second of the processor: files, cluster", `${perCpu("files")}, ${perCpu("cluster")}`),
      told("etcd, API server and operator while file mode is loaded", cores("cores of files")),
      told("the same while the cluster's gateway is loaded", cores("cores of cluster")),
    ];
  },
};

/** How the sides are loaded: one after the other, there and back, or in the same seconds. */
async function loaded(
  how: "in turn" | "at once",
  isBack: boolean,
  sides: Sides<Side>,
  load: (side: Side, forSeconds: number) => Promise<Sample>,
): Promise<Sides<Sample>> {
  const [files, others, cluster] = sides;
  if (how === "at once")
    return await Promise.all([load(files, seconds), load(others, seconds), load(cluster, seconds)]);
  const samples = new Map<Side, Sample>();
  for (const side of isBack ? sides.toReversed() : sides) samples.set(side, await load(side, seconds));
  const sampleOf = (side: Side): Sample => samples.get(side) ?? { perSecond: 0, cpuMicros: 0, clusterCores: 0 };
  return [sampleOf(files), sampleOf(others), sampleOf(cluster)];
}
