/**
 * Starts what many test files share, and ends it after a command, whose exit code it takes over.
 *
 *   node test/support/kube/with-shared.ts plane COMMAND...     or `cluster`: with a node
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { startSharedCluster, startSharedPlane } from "./shared.ts";

const [what, command = "", ...args] = process.argv.slice(2);
await using shared = what === "cluster" ? await startSharedCluster() : await startSharedPlane();
const { directory, url, token } = shared;
const name = what === "cluster" ? "BERTH_TEST_CLUSTER" : "BERTH_TEST_PLANE";
const env = { ...process.env, [name]: JSON.stringify({ directory, url, token }) };
const child = spawn(command, args, { stdio: "inherit", env });
const [code]: unknown[] = await once(child, "close");
process.exitCode = typeof code === "number" ? code : 1;
