import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { present } from "../../src/cli/slot-requests.ts";
import { apiDouble, type ApiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { later } from "../support/later.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { coder, done, failed, misused, primary, refused, told, type Answers } from "./fixture.ts";

describe("berth slot load, unload, restart, swap and delete", () => {
  for (const [line, path, body, said] of [
    ["load primary", "/load", "", "load requested"],
    ["unload primary", "/unload", "", "unload requested"],
    ["restart primary", "/restart", "", "restart requested"],
    ["swap primary qwen3:4b", "/swap", '{"model":"qwen3:4b"}', "swap to qwen3:4b requested"],
    ["swap primary a --write", "/swap", '{"model":"a","write":true}', "its manifest now names a"],
    ["swap primary --reset", "/swap", '{"reset":true}', "swap back requested"],
  ] as const)
    it(`requests the change: ${line}`, async () => {
      const { ended, asked, bodies } = await told({ [`/api/slots/primary${path}`]: primary }, `slot ${line}`);
      assert.deepEqual([ended, asked], [done(`primary: ${said}\n`), [`POST /api/slots/primary${path}`]]);
      assert.deepEqual(bodies, [body]);
    });

  it("deletes at once with --yes", async () => {
    const { ended, asked } = await told({ "/api/slots/coder": coder }, "slot delete coder --yes");
    assert.deepEqual([ended, asked], [done("coder: deleted\n"), ["DELETE /api/slots/coder"]]);
  });

  for (const [line, why] of [
    ["swap primary", "name a model, or give --reset"],
    ["swap primary a --reset", "name a model, or give --reset"],
    ["swap primary --reset --write", "option '--reset' cannot be used with option '--write'"],
    ["delete coder", "--yes is needed where nobody can be asked"],
  ] as const)
    it(`is used wrongly: ${line}`, async () => {
      const { ended, asked } = await told({}, `slot ${line}`);
      const stderr = `usage: ${why}\nsee \`berth slot ${line.split(" ")[0]} --help\`\n`;
      assert.deepEqual([ended, asked], [misused(stderr), []]);
    });
});

describe("--wait", () => {
  const reconciling = (state: string, message: string) => ({
    ...primary,
    state,
    conditions: [
      { type: "Ready", status: "Unknown", reason: "Progressing", message: "in progress" },
      { type: "Reconciling", status: "True", reason: "Starting", message },
    ],
  });
  const loading = reconciling("starting", "the engine loads its model");
  const silence = "no heartbeat of the operator for 5 s";
  const lost = { type: "Ready", status: "Unknown", reason: "OperatorLost", message: silence };

  it("prints each reason of the wait as a line, and then the result", async () => {
    let waiting: ServerResponse | undefined;
    await using api = await apiDouble({
      "/api/slots/primary": reconciling("unloading", "open requests are waited for"),
      "/api/slots/primary/restart?wait=ready&timeout=180": (response) => (waiting = response),
    });
    const running = later(runBerth(["slot", "restart", "primary", "--wait"], { SVC_URL: api.url }));
    await until("the service is asked", () => waiting !== undefined && api.asked.length > 1);
    await seen(api);
    api.answer("/api/slots/primary", loading);
    await seen(api);
    waiting?.end(JSON.stringify(primary));
    assert.deepEqual(
      await running,
      done(
        "primary: ready: tiny is loaded\n",
        "primary: unloading: open requests are waited for\nprimary: starting: the engine loads its model\n",
      ),
    );
  });

  async function seen(api: ApiDouble): Promise<void> {
    // The look that was under way may have been answered before the change: the one after the next has not.
    const before = api.asked.length;
    await until("two more looks", () => api.asked.length > before + 1);
  }

  for (const [name, line, slot, said] of [
    [
      "fails when the slot fails",
      "restart primary --wait",
      { ...coder, name: "primary" },
      "slot.failed: primary: CrashLoop: exited with code 1\nsee `berth slot show primary`\n",
    ],
    [
      "says at its time limit what the slot is doing",
      "restart primary --wait --timeout 7",
      loading,
      "slot.not_ready: not over after 7 s: primary: starting: the engine loads its model\nit goes on; see `berth slot show primary`\n",
    ],
    [
      "says that no operator runs",
      "restart primary --wait",
      { ...loading, conditions: [lost] },
      "slot.not_ready: no operator runs (no heartbeat of the operator for 5 s): primary is starting\nthe next operator does what was asked; see `berth status`\n",
    ],
    [
      "fails when the slot is not loaded at the end",
      "load primary --wait",
      { ...primary, state: "offline" },
      "slot.not_ready: settled, but not loaded: primary: offline: tiny is loaded\nsee `berth slot show primary`\n",
    ],
    [
      "fails when the slot holds another model at the end",
      "swap primary qwen3:4b --wait",
      primary,
      "slot.not_ready: primary holds tiny, not qwen3:4b\nsee `berth slot show primary`\n",
    ],
  ] as const)
    it(name, async () => {
      const timeout = / --timeout (\d+)/.exec(line)?.[1] ?? "180";
      const path = `/api/slots/primary/${line.split(" ")[0]}?wait=ready&timeout=${timeout}`;
      const { code, stdout, stderr } = await told({ "/api/slots/primary": slot, [path]: slot }, `slot ${line}`);
      assert.deepEqual([code, stdout], [1, ""]);
      // Lines about progress may come before it.
      assert.ok(`\n${stderr}`.endsWith(`\n${said}`), stderr);
    });

  it("shows progress as a bar beside the fact", () => {
    const pulling = { ...primary, state: "pulling", conditions: [] };
    const detail = (progress: object): string => present({ ...pulling, progress }).detail;
    assert.equal(
      detail({ bytes_done: 512, bytes_total: 2048, bytes_per_second: 1024 }),
      " [#####---------------] 25% of 2.0 KiB, 1.0 KiB/s",
    );
    assert.equal(detail({ bytes_done: 2048 }), " 2.0 KiB");
    assert.equal(present(pulling).fact, "primary: pulling");
  });
});

describe("berth slot create", () => {
  /** `berth slot create LINE` with a file of that text, which is called FILE. */
  async function create(line: string, text = "", answers: Answers = { "/api/slots": primary }) {
    await using directory = await tempDir();
    const path = join(directory.path, "slot.yaml");
    await writeFile(path, text);
    const { ended, asked, bodies } = await told(answers, `slot create ${line.replace("FILE", path)}`);
    const stderr = ended.stderr.replace(path, "FILE");
    return { ended: { ...ended, stderr }, asked, bodies: bodies.map((body): unknown => JSON.parse(body)) };
  }
  const head = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "coder", labels: { a: "b" } } };
  const spec = { model: { default: "tiny", threads: 2 } };

  for (const [what, line, text, body] of [
    [
      "a flat spec of the options",
      "coder --model qwen3-4b --load onDemand --alias a b --context-size 2048",
      "",
      { load: "onDemand", aliases: ["a", "b"], model: { default: "qwen3-4b", contextSize: 2048 }, name: "coder" },
    ],
    [
      "a manifest, unchanged apart from the given options",
      "-f FILE --model other",
      JSON.stringify({ ...head, spec }),
      { ...head, spec: { model: { default: "other", threads: 2 } } },
    ],
  ] as const)
    it(`sends ${what}`, async () => {
      const { ended, asked, bodies } = await create(line, text);
      assert.deepEqual([ended, asked, bodies], [done("coder: created\n"), ["POST /api/slots"], [body]]);
    });

  it("says why the new slot cannot start, and how its model is fetched", async () => {
    const message = "no model is called nope: fetch it by `berth model pull nope`";
    const condition = { reason: "ModelNotFound", message };
    const conditions = [
      { type: "Ready", status: "False", ...condition },
      { type: "Stalled", status: "True", ...condition },
    ];
    const { ended } = await create("coder --model nope", "", { "/api/slots": { ...coder, conditions } });
    assert.deepEqual(ended, done(`coder: created, but it cannot start yet: ${message}\n`));
  });

  it("needs a name", async () => {
    const stderr = "usage: the slot has no name: berth slot create NAME …\nsee `berth slot create --help`\n";
    assert.deepEqual((await create("-f FILE", "model: {default: tiny}\n")).ended, misused(stderr));
  });

  const toml = "a TOML manifest goes into the slots directory as it is";
  for (const [text, message, next] of [
    ["model: a\nmodel: b\n", "FILE:2:1: it is neither YAML nor JSON: Map keys must be unique", toml],
    [
      "load: onDemand\n\tmodel: a\n",
      "FILE:2:1: it is neither YAML nor JSON: Tabs are not allowed as indentation",
      toml,
    ],
    ['load = "onDemand"\n', "FILE: a manifest is a map of fields", toml],
    [
      "name: a\n---\nname: b\n",
      "FILE:2:1: another manifest begins here, and one is created at a time",
      "split the file, or put it into the slots directory as it is",
    ],
  ] as const)
    it(`names the line and what to do: ${message}`, async () => {
      assert.deepEqual((await create("coder -f FILE", text)).ended, failed(`config.invalid: ${message}\n${next}\n`));
    });

  for (const [file, reason] of [
    ["/", "it is a directory"],
    ["/none.yaml", "there is no such file"],
  ] as const)
    it(`says why a file cannot be read: ${reason}`, async () => {
      const { ended } = await told({}, `slot create coder -f ${file}`);
      assert.deepEqual(ended, failed(`config.unreadable: ${file}: ${reason}\ngive a file, or - for standard input\n`));
    });

  it("reads a manifest from standard input, and names the remedy where that is empty", async () => {
    const { bodies } = await told({ "/api/slots": primary }, "slot create -f -", { typed: "name: coder\n" });
    assert.deepEqual(bodies, ['{"name":"coder"}']);
    const empty = await told({}, "slot create coder -f -");
    assert.deepEqual(empty.ended, misused("usage: standard input is empty\npipe a manifest in, or name its file\n"));
  });

  it("passes on refusals of the service", async () => {
    const answers = { "/api/slots": refused(409, "slot.already_exists", "a slot with this name exists") };
    const { ended } = await create("primary --model a", "", answers);
    assert.deepEqual(ended, failed("slot.already_exists: a slot with this name exists\nsee `berth slot list`\n"));
  });
});
