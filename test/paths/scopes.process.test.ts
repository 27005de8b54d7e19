import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { until } from "../support/until.ts";
import { chat, manifest, writeSlot } from "./fixture.ts";

it("each token opens what its scope has, from the request after it was made until it is revoked", async () => {
  await using berth = await startBerth({
    env: { SVC_AUTH_ENABLED: "1" },
    prepare: (directories) => writeSlot(directories, "coder", manifest()),
  });
  const env = { ...berth.env, SVC_URL: "" };
  const token = async (scope: string): Promise<string> => {
    const { code, stdout, stderr } = await runBerth(["token", "create", "--label", scope, "--scope", scope], env);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const get = async (path: string, bearer: string): Promise<number> => {
    const response = await fetch(new URL(path, berth.url), { headers: { authorization: `Bearer ${bearer}` } });
    await response.arrayBuffer();
    return response.status;
  };
  const load = async (bearer: string): Promise<number> => {
    const headers = { authorization: `Bearer ${bearer}` };
    const response = await fetch(new URL("/api/slots/coder/load?wait=ready", berth.url), { method: "POST", headers });
    await response.arrayBuffer();
    return response.status;
  };
  assert.deepEqual(await chat(berth, "coder"), [401, "auth.required"]);
  const early = await token("admin");
  await until("the slot is published", async () => (await get("/api/slots/coder", early)) === 200);
  const table = [
    { scope: "admin", loads: 202, reads: 200, chats: 200 },
    { scope: "all", loads: 403, reads: 200, chats: 200 },
    { scope: "v1-only", loads: 403, reads: 403, chats: 200 },
    { scope: "read-only", loads: 403, reads: 200, chats: 403 },
  ] as const;
  for (const { scope, ...expected } of table) {
    const bearer = await token(scope);
    const [loads, reads] = [await load(bearer), await get("/api/slots/coder", bearer)];
    const [chats] = await chat(berth, "coder", bearer);
    assert.deepEqual({ loads, reads, chats }, expected, scope);
    assert.doesNotMatch(berth.log(), new RegExp(bearer));
  }
  const gone = await token("all");
  assert.equal((await chat(berth, "coder", gone))[0], 200);
  const [, id = ""] = /^svc_([^.]+)\./.exec(gone) ?? [];
  const revoked = await runBerth(["token", "revoke", id], env);
  assert.equal(revoked.code, 0, revoked.stderr);
  assert.equal((await chat(berth, "coder", gone))[0], 401);
});
