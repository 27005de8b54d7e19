import { join } from "node:path";
import { startControlPlane } from "../../support/kube/control-plane.ts";
import { installKinds } from "../../support/kube/crds.ts";
import { openSlotSite } from "../../support/kube/site.ts";
import { atLeast, figure, median, range, told, type Bar } from "../bar.ts";
import { cpuSeconds } from "../machine/cpu.ts";
import { nginxEngine } from "../machine/nginx.ts";
import { openSite } from "../machine/site.ts";
import { openStage } from "../machine/stage.ts";
import { runWrk } from "../machine/wrk.ts";
import { requestBody, warmUpSeconds } from "./chat.ts";

const seconds = 4;
const connections = 32;

interface Side {
  readonly port: number;
  readonly pid: number;
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

const said = ({ perSecond, cpuMicros }: Sample): string => `${figure(perSecond)}/s, ${figure(cpuMicros)} µs`;

/** A gateway whose slots are custom resources beside one whose slots are files: the same engine, in turn. */
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
    await using files = await openStage({ engine: "instant" });
    await using cluster = await openSite({ slotPorts: 1 });
    const engine = await nginxEngine(join(cluster.directory, "engine"), { port: cluster.enginePort, model: "fixed" });
    await at.apply("bench", { engine: "custom", model: { default: "fixed" }, command: engine });
    await cluster.operator({ env: at.env });
    await at.pid("bench");
    const gateway = await cluster.gateway({ env: at.env });
    const sides = {
      files: { port: files.site.gatewayPort, pid: files.gateway.pid },
      cluster: { port: cluster.gatewayPort, pid: gateway.pid },
    } as const;
    const load = async ({ port, pid }: Side, forSeconds: number): Promise<Sample> => {
      const { directory } = files.site;
      const before = cpuSeconds(pid);
      const asked = { directory, port, body: requestBody, connections, seconds: forSeconds };
      const { perSecond, requests, failures } = await runWrk(asked);
      if (failures > 0) throw new Error(`${failures} requests failed at port ${port}`);
      return { perSecond, cpuMicros: ((cpuSeconds(pid) - before) / requests) * 1_000_000 };
    };
    for (const side of Object.values(sides)) await load(side, warmUpSeconds);
    const ratios: number[] = [];
    const costs: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      const ofFiles = await load(sides.files, seconds);
      const ofCluster = await load(sides.cluster, seconds);
      ratios.push(ofCluster.perSecond / ofFiles.perSecond);
      costs.push(ofCluster.cpuMicros / ofFiles.cpuMicros);
      bench.say(`files ${said(ofFiles)}; cluster ${said(ofCluster)}`);
    }
    return [
      atLeast(name, median(ratios), 0.95, "×", range(ratios)),
      told("the gateway's processor time for a request, of file mode's", `${figure(median(costs))}×${range(costs)}`),
    ];
  },
};
