import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * How busy this machine is: the milliseconds that a Node process which does nothing takes now, from its start to its
 * end. A test of a promise about time adds a multiple of them, measured meanwhile, to what was promised for a machine at
 * rest.
 */
export async function idleProcessMs(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ["--eval", ""], { stdio: "ignore" }), "exit");
  return performance.now() - began;
}
