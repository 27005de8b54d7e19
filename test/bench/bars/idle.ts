import { setTimeout as delay } from "node:timers/promises";
import { atMost, mebibyte, type Bar, type Result } from "../bar.ts";
import { proportionalBytes, residentBytes, scheduledSeconds, voluntarySwitches } from "../machine/cpu.ts";
import { engineCommand, openSite } from "../machine/site.ts";

const running = 16;
const resting = 4;
const seconds = 20;
/** Periodic work runs together once a second, probes on whole seconds: the rest of the wake-ups are threads and garbage. */
const maxWakeUps = 30;

/** The cost of both processes while nobody asks for anything. */
export const idle: Bar = {
  name: "idle",
  about: `memory and CPU at rest, ${running + resting} slots of which ${running} run`,
  async run() {
    await using site = await openSite();
    const names = Array.from({ length: running }, (_, index) => `run${index}`);
    for (const name of names) await site.slot(name, { model: { default: "fixed" }, command: engineCommand() });
    for (let index = 0; index < resting; index++)
      await site.slot(`rest${index}`, { load: "onDemand", command: engineCommand() });
    // A first start compiles, and keeps what it compiled for the next ones.
    for (const part of [await site.operator(), await site.gateway()]) await part.stop();
    const whole = await upAtRest();
    const operator = await site.operator();
    for (const name of names) await site.state(name, "ready", 60_000);
    const gateway = await site.gateway();
    // What starting up left behind is no part of resting.
    await delay(8000);
    const parts = [
      ["gateway", gateway.pid],
      ["operator", operator.pid],
    ] as const;
    const before = parts.map(([, pid]) => ({ cpu: scheduledSeconds(pid), switches: voluntarySwitches(pid) }));
    await delay(seconds * 1000);
    const each = parts.flatMap(([part, pid], index) => {
      const began = before[index] ?? { cpu: 0, switches: 0 };
      return [
        atMost(`${part} at rest: resident memory`, residentBytes(pid) / mebibyte, 110, " MiB"),
        atMost(`${part} at rest: CPU`, ((scheduledSeconds(pid) - began.cpu) / seconds) * 100, 1, " % of a core"),
        atMost(
          `${part} at rest: wake-ups`,
          (voluntarySwitches(pid) - began.switches) / seconds,
          maxWakeUps,
          " a second",
        ),
      ];
    });
    return [whole, ...each];
  },
};

/** The memory of `berth up` without a slot: parent, operator and gateway together. */
async function upAtRest(): Promise<Result> {
  await using site = await openSite();
  // The first start of each program keeps what it compiled for the second.
  await (await site.up()).stop("SIGINT");
  const { pid } = await site.up();
  await delay(8000);
  return atMost("berth up at rest: all processes, PSS", proportionalBytes(pid) / mebibyte, 190, " MiB");
}
