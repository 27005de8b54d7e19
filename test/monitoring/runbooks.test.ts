import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { RunningBerth } from "../support/berth.ts";
import { json, sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { load, startSite } from "./site.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

interface Line {
  readonly page: string;
  readonly line: string;
}

/** Every line of every block, and every command of Berth within a sentence. */
async function linesOfRunbooks(): Promise<readonly Line[]> {
  const pages = (await readdir(join(root, "docs/runbooks"))).filter((name) => name !== "README.md");
  const all = await Promise.all(
    pages.map(async (page) => {
      const text = await readFile(join(root, "docs/runbooks", page), "utf8");
      const blocks = [...text.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block = ""]) => block.trim().split("\n"));
      const prose = text.replaceAll(/```sh\n.*?```/gs, "");
      const within = [...prose.matchAll(/`(berth [^`]+)`/g)].map(([, command = ""]) => command);
      return [...blocks, ...within.filter((command) => !mentions.has(command))].map((line) => ({ page, line }));
    }),
  );
  return all.flat();
}

/** A name of a command within a sentence, without what it would need to run. */
const mentions: ReadonlySet<string> = new Set(["berth up", "berth lend", "berth slot show", "berth token list"]);
/** Another program's, which is not here, or has nothing to show. */
const foreign = /^(journalctl|systemctl|docker|kubectl|openssl|nvidia-smi|free|df) /;
/** No edge proxy is here, and no blackbox exporter. */
const ofEdge = /\$EDGE|:9115/;
/** Changes something, or takes the slot's time. */
const changing = /^berth (slot (unload|load|restart)|lend|pull resume|upstream check|token create|bench)\b/;

function environmentOf(berth: RunningBerth): NodeJS.ProcessEnv {
  return {
    ...berth.env,
    PATH: `${join(root, "bin")}:${berth.env["PATH"] ?? ""}`,
    SLOT: "primary",
    REF: "small",
    UPSTREAM: "cloud",
    GROUP: "pair",
    EDGE: "127.0.0.1:9",
    BERTH: berth.url,
    OPERATOR: berth.operatorUrl,
  };
}

async function works({ page, line }: Line, env: NodeJS.ProcessEnv): Promise<void> {
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", line], { env }).catch((error: unknown) =>
    assert.fail(`${page}: ${line}: ${String(error)}`),
  );
  assert.ok(stdout.length > 0 || line.endsWith("|| true"), `${page}: ${line} prints nothing`);
}

test("every command of Berth in a runbook, and every request, works", async () => {
  await using provider = await scriptedEngine((response, seen) => {
    if (seen.path.endsWith("/models")) json(response, { object: "list", data: [{ id: "cloud/big", object: "model" }] });
    else sayHello(response, seen);
  });
  await using berth = await startSite(provider.port, { isFetching: true });
  await berth.state("primary", "ready");
  await load(berth, ["primary", "cloud/big", "no-such-model"]);
  const env = environmentOf(berth);
  const lines = (await linesOfRunbooks()).filter(({ line }) => !foreign.test(line) && !ofEdge.test(line));
  assert.ok(lines.length > 60, "a runbook's lines were not found");
  for (const each of lines) if (!changing.test(each.line)) await works(each, env);

  const changes = lines.filter(({ line }) => changing.test(line));
  assert.ok(changes.length > 8, "a runbook's changes were not found");
  for (const each of changes) {
    // Each finds the slot loaded, and the group lent.
    await run("berth", ["slot", "load", "primary"], { env });
    await berth.state("primary", "ready", "idle", "serving");
    if (each.line.startsWith("berth lend --end")) await run("berth", ["lend", "1h", "--group", "pair"], { env });
    await works({ ...each, line: each.line.replace("NAME", "mine") }, env);
  }
});

test("a request to an edge that is not there says so, and knows its options", async () => {
  const env = { PATH: `${join(root, "bin")}:${process.env["PATH"] ?? ""}`, EDGE: "127.0.0.1:9" };
  const checks = (await linesOfRunbooks()).filter(({ line }) => line.startsWith("berth proxy check"));
  assert.ok(checks.length > 0);
  for (const { page, line } of checks)
    await assert.rejects(
      run("bash", ["-euo", "pipefail", "-c", line], { env }),
      ({ stdout, stderr }: { stdout: string; stderr: string }) => {
        assert.match(`${stdout}${stderr}`, /ECONNREFUSED|refused/, `${page}: ${line}`);
        return true;
      },
    );
});

test("other programs have the options that runbooks give them, where they are on this machine", async () => {
  for (const { page, line } of await linesOfRunbooks()) {
    if (!foreign.test(line)) continue;
    const [own = ""] = line.split(" | ");
    const [program = "", second = ""] = own.split(" ");
    // The options of openssl have one dash, and its help is another for each.
    if (program === "openssl") continue;
    const subcommand = program === "docker" || program === "kubectl" ? [second] : [];
    const options = own.match(/(?<= )--[a-z-]+/g) ?? [];
    const help = await run(program, [...subcommand, "--help"], { env: { ...process.env, PAGER: "cat" } }).catch(
      (error: unknown) => ({ stdout: "", stderr: String(error) }),
    );
    if (/ENOENT/.test(help.stderr)) continue;
    const more = program === "kubectl" ? (await run("kubectl", ["options"])).stdout : "";
    for (const option of options)
      assert.ok(`${help.stdout}${more}`.includes(option), `${page}: ${program} has no ${option}`);
  }
});
