import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { test } from "node:test";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { DockerSite } from "./docker-site.ts";

const ours = "10.213.7.1";
const theirs = "10.213.7.2";

function run(...words: readonly string[]): string {
  const [program = "", ...args] = words;
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  assert.equal(status, 0, `${words.join(" ")}: ${stderr}`);
  return stdout;
}

test("from another machine on the network no engine can be reached", { timeout: 300_000 }, async () => {
  await using site = new DockerSite();
  await using runtime = await site.open();
  const port = await freePort();
  await runtime.ensure(site.workload(port));
  await until("it answers here", async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok);
  // A second network namespace stands for the other machine, a pair of virtual cards for the cable.
  await using stack = new AsyncDisposableStack();
  const machine = spawn("unshare", ["--net", "sleep", "600"], { stdio: "ignore" });
  stack.defer(() => void machine.kill("SIGKILL"));
  const inside = ["nsenter", "-t", String(machine.pid), "-n"];
  await until(
    "the other machine is up",
    () => run(...inside, "readlink", "/proc/self/ns/net") !== run("readlink", "/proc/self/ns/net"),
  );
  run("ip", "link", "add", "berth-a", "type", "veth", "peer", "name", "berth-b");
  stack.defer(() => void spawnSync("ip", ["link", "del", "berth-a"]));
  run("ip", "link", "set", "berth-b", "netns", String(machine.pid));
  run("ip", "addr", "add", `${ours}/30`, "dev", "berth-a");
  run("ip", "link", "set", "berth-a", "up");
  run(...inside, "ip", "addr", "add", `${theirs}/30`, "dev", "berth-b");
  run(...inside, "ip", "link", "set", "berth-b", "up");
  const reach = (script: string): string => run(...inside, process.execPath, "-e", script).trim();
  const tried = (target: number): string =>
    reach(`require("node:net").connect(${target}, ${JSON.stringify(ours)})
      .on("connect", () => { console.log("connected"); process.exit(0); })
      .on("error", (error) => { console.log(error.code); process.exit(0); })`);
  // The cable works: a server on every address is reached.
  const everywhere = await freePort();
  const open = spawn(process.execPath, ["-e", `require("node:net").createServer().listen(${everywhere}, "0.0.0.0")`], {
    stdio: "ignore",
  });
  stack.defer(() => void open.kill("SIGKILL"));
  await until("the cable works", () => tried(everywhere) === "connected");
  assert.equal(tried(port), "ECONNREFUSED");
});
