/**
 * Starts what many test files share, and ends it after a command, whose exit code it takes over. At TERM and INT it ends the
 * command first.
 *
 *   node test/support/kube/with-shared.ts plane COMMAND...     or `cluster`: with a node
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { startSharedCluster, startSharedPlane } from "./shared.ts";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort());

const [what, command = "", ...args] = process.argv.slice(2);
await using shared = what === "cluster" ? await startSharedCluster() : await startSharedPlane();
const { directory, url, token } = shared;
const name = what === "cluster" ? "BERTH_TEST_CLUSTER" : "BERTH_TEST_PLANE";
const env = { ...process.env, [name]: JSON.stringify({ directory, url, token }) };
process.exitCode = 1;
if (!stopping.signal.aborted) {
  const child = spawn(command, args, { stdio: "inherit", env });
  stopping.signal.addEventListener("abort", () => child.kill("SIGTERM"));
  const [code]: unknown[] = await once(child, "close");
  if (typeof code === "number") process.exitCode = code;
}
