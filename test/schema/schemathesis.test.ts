import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { TokenStore } from "../../src/store/auth/tokens.ts";
import { startBerth } from "../support/berth.ts";
import { tempDir } from "../support/temp-dir.ts";

const command = process.env["BERTH_TEST_SCHEMATHESIS"] ?? "";
const settings = join(import.meta.dirname, "schemathesis.toml");
const hooks = join(import.meta.dirname, "hooks.py");

/** What it says of a gateway, the same in every run of one version; streams of events have no end to be looked at. */
async function findings(url: string, token?: string): Promise<readonly [status: number | null, text: string]> {
  await using directory = await tempDir();
  const header = token === undefined ? [] : ["--header", `Authorization: Bearer ${token}`];
  const child = spawn(
    command,
    [
      ["--config-file", settings, "run", `${url}/api/openapi.json`],
      [
        "--checks",
        "all",
        "--phases",
        "examples,coverage,fuzzing",
        "--exclude-path",
        "/api/events",
        "--exclude-path",
        "/models/sse",
      ],
      ["--seed", "1", "--max-examples", "5", "--generation-deterministic"],
      ["--no-shrink", "--continue-on-failure", "--request-timeout", "120", "--warnings", "off", "--no-color"],
      header,
    ].flat(),
    {
      cwd: directory.path,
      env: { ...process.env, SCHEMATHESIS_HOOKS: hooks, PYTHONDONTWRITEBYTECODE: "1" },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 1_500_000,
    },
  );
  const ended = once(child, "close");
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await ended;
  return [child.exitCode, `${out}${errors}`];
}

describe("the gateway holds what its OpenAPI document says", { concurrency: 2 }, () => {
  for (const isProtected of [false, true]) {
    it(`with authentication ${isProtected ? "on" : "off"}`, async () => {
      await using berth = await startBerth({
        env: { SVC_AUTH_ENABLED: isProtected ? "1" : "0", SVC_HOLD_SECONDS: "0" },
      });
      await using tokens = new TokenStore(berth.stateDir);
      const token = isProtected ? (await tokens.create({ label: "a test", scope: "admin" })).token : undefined;
      const [status, said] = await findings(berth.url, token);
      assert.equal(status, 0, said);
    });
  }
});
