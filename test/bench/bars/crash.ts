import { until } from "../../support/until.ts";
import { atMost, figure, median, type Bar } from "../bar.ts";
import { engineCommand, openSite } from "../machine/site.ts";

const slots = 5;

/** What the published status says of an engine that was killed, and when the next one is there. */
export const crash: Bar = {
  name: "crash",
  about: "from an engine's SIGKILL to the published truth and the next load",
  async run() {
    await using site = await openSite();
    for (let index = 0; index < slots; index++) await site.slot(`run${index}`, { command: engineCommand() });
    await site.operator();
    const gone: number[] = [];
    const loading: number[] = [];
    for (let index = 0; index < slots; index++) {
      const name = `run${index}`;
      const before = await site.state(name, "ready");
      const pid = before.status.processes[0]?.pid;
      if (pid === undefined) throw new Error(`${name} is ready without a process`);
      process.kill(pid, "SIGKILL");
      const began = performance.now();
      const since = async (
        what: string,
        isIt: (state: string, pid: number | undefined) => boolean,
      ): Promise<number> => {
        await until(`${name} is ${what}`, async () => {
          const found = await site.published(name);
          return found !== undefined && isIt(found.status.state, found.status.processes[0]?.pid);
        });
        return performance.now() - began;
      };
      gone.push((await since("not ready", (state) => state !== "ready")) / 1000);
      loading.push((await since("loading", (_, now) => now !== undefined && now !== pid)) / 1000);
    }
    return [
      atMost("engine killed → ready is gone", Math.max(...gone), 1, " s", ` (median ${figure(median(gone))})`),
      atMost("engine killed → loading again", Math.max(...loading), 3, " s", ` (median ${figure(median(loading))})`),
    ];
  },
};
