import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { present } from "../../src/cli/slot-requests.ts";
import { apiDouble, failure, type ApiDouble } from "../support/api-double.ts";
import { runBerth, type Ended } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { coder, primary } from "./fixture.ts";
import { later } from "../support/later.ts";

const last = (api: ApiDouble): unknown => [api.asked.at(-1), api.bodies.at(-1)];

describe("berth slot load, unload, restart and swap", () => {
  const requests: readonly (readonly [args: readonly string[], path: string, body: string, said: string])[] = [
    [["load", "primary"], "/load", "", "load requested"],
    [["unload", "primary"], "/unload", "", "unload requested"],
    [["restart", "primary"], "/restart", "", "restart requested"],
    [["swap", "primary", "qwen3:4b"], "/swap", '{"model":"qwen3:4b"}', "swap to qwen3:4b requested"],
    [["swap", "primary", "a", "--write"], "/swap", '{"model":"a","write":true}', "its manifest now names a"],
    [["swap", "primary", "--reset"], "/swap", '{"reset":true}', "swap back requested"],
  ];
  for (const [args, path, body, said] of requests) {
    it(`requests the change: ${args.join(" ")}`, async () => {
      await using api = await apiDouble({ [`/api/slots/primary${path}`]: primary });
      const ended = await runBerth(["slot", ...args], { SVC_URL: api.url });
      assert.deepEqual(ended, { code: 0, stdout: `primary: ${said}\n`, stderr: "" });
      assert.deepEqual(last(api), [`POST /api/slots/primary${path}`, body]);
    });
  }

  for (const args of [
    ["swap", "primary"],
    ["swap", "primary", "a", "--reset"],
    ["swap", "primary", "--reset", "--write"],
  ]) {
    it(`is used wrongly: ${args.join(" ")}`, async () => {
      const { code, stderr } = await runBerth(["slot", ...args]);
      assert.equal(code, 2);
      assert.match(stderr, /^usage: .*\nsee `berth slot swap --help`\n$/);
    });
  }
});

describe("--wait", () => {
  const reconciling = (state: string, message: string): object => ({
    ...primary,
    state,
    conditions: [
      { type: "Ready", status: "Unknown", reason: "Progressing", message: "in progress" },
      { type: "Reconciling", status: "True", reason: "Starting", message },
    ],
  });

  /** Runs a restart that the service holds until `answer` is called. */
  async function held(
    drive: (api: ApiDouble, answer: (slot: object) => void) => Promise<void>,
    ...more: readonly string[]
  ): Promise<Ended & { asked: readonly string[] }> {
    let waiting: ServerResponse | undefined;
    const timeout = more.length === 0 ? 180 : Number(more[1]);
    await using api = await apiDouble({
      "/api/slots/primary": reconciling("unloading", "open requests are waited for"),
      [`/api/slots/primary/restart?wait=ready&timeout=${timeout}`]: (response) => (waiting = response),
    });
    const running = later(runBerth(["slot", "restart", "primary", "--wait", ...more], { SVC_URL: api.url }));
    await until("the service is asked", () => waiting !== undefined && api.asked.length > 1);
    await drive(api, (slot) => waiting?.end(JSON.stringify(slot)));
    return { ...(await running), asked: api.asked };
  }

  async function seen(api: ApiDouble): Promise<void> {
    // The look that was under way may have been answered before the change: the one after the next has not.
    const before = api.asked.length;
    await until("two more looks", () => api.asked.length > before + 1);
  }

  it("prints each reason of the wait as a line, and then the result", async () => {
    const ended = await held(async (api, answer) => {
      await seen(api);
      api.answer("/api/slots/primary", reconciling("starting", "the engine loads its model"));
      await seen(api);
      answer(primary);
    });
    assert.deepEqual([ended.code, ended.stdout], [0, "primary: ready: tiny is loaded\n"]);
    assert.equal(
      ended.stderr,
      "primary: unloading: open requests are waited for\nprimary: starting: the engine loads its model\n",
    );
  });

  it("fails when the slot fails", async () => {
    const { code, stdout, stderr } = await held(async (_api, answer) => {
      answer({ ...coder, name: "primary" });
    });
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(
      stderr,
      /(^|\n)slot\.failed: primary: CrashLoop: exited with code 1\nsee `berth slot show primary`\n$/,
    );
  });

  it("says at its time limit what the slot is doing", async () => {
    const { code, stderr } = await held(
      async (_api, answer) => answer(reconciling("starting", "the engine loads its model")),
      "--timeout",
      "7",
    );
    assert.equal(code, 1);
    assert.match(
      stderr,
      /(^|\n)slot\.not_ready: not over after 7 s: primary: starting: the engine loads its model\nit goes on; see `berth slot show primary`\n$/,
    );
  });

  it("says that no operator runs", async () => {
    const lost = {
      type: "Ready",
      status: "Unknown",
      reason: "OperatorLost",
      message: "no heartbeat of the operator for 5 s",
    };
    const { code, stderr } = await held(async (_api, answer) =>
      answer({ ...reconciling("starting", "the engine loads its model"), conditions: [lost] }),
    );
    assert.equal(code, 1);
    assert.match(
      stderr,
      /(^|\n)slot\.not_ready: no operator runs \(no heartbeat of the operator for 5 s\): primary is starting\nthe next operator does what was asked; see `berth status`\n$/,
    );
  });

  for (const [args, path, slot, said] of [
    [
      ["load", "primary"],
      "/load",
      { ...primary, state: "offline" },
      "settled, but not loaded: primary: offline: tiny is loaded",
    ],
    [["swap", "primary", "qwen3:4b"], "/swap", primary, "primary holds tiny, not qwen3:4b"],
  ] as const) {
    it(`fails when the slot ends in another state than the requested one: ${args.join(" ")}`, async () => {
      await using api = await apiDouble({
        "/api/slots/primary": slot,
        [`/api/slots/primary${path}?wait=ready&timeout=180`]: slot,
      });
      const { code, stdout, stderr } = await runBerth(["slot", ...args, "--wait"], { SVC_URL: api.url });
      assert.deepEqual([code, stdout], [1, ""]);
      assert.ok(stderr.endsWith(`slot.not_ready: ${said}\nsee \`berth slot show primary\`\n`), stderr);
    });
  }

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
  async function created(args: readonly string[], file = ""): Promise<{ ended: Ended; body: unknown; asked: unknown }> {
    await using directory = await tempDir();
    const path = join(directory.path, "slot.yaml");
    await writeFile(path, file);
    await using api = await apiDouble({ "/api/slots": primary });
    const ended = await runBerth(["slot", "create", ...args.map((arg) => arg.replace("FILE", path))], {
      SVC_URL: api.url,
    });
    const [body] = api.bodies;
    const stderr = ended.stderr.replaceAll(path, "FILE");
    return { ended: { ...ended, stderr }, body: body === undefined ? undefined : JSON.parse(body), asked: api.asked };
  }

  it("sends a flat spec of the options", async () => {
    const { ended, body, asked } = await created([
      "coder",
      "--model",
      "qwen3-4b",
      "--load",
      "onDemand",
      "--alias",
      "a",
      "b",
      "--context-size",
      "2048",
    ]);
    assert.deepEqual(ended, { code: 0, stdout: "coder: created\n", stderr: "" });
    assert.deepEqual(asked, ["POST /api/slots"]);
    assert.deepEqual(body, {
      load: "onDemand",
      aliases: ["a", "b"],
      model: { default: "qwen3-4b", contextSize: 2048 },
      name: "coder",
    });
  });

  it("sends a manifest unchanged apart from the given options", async () => {
    const manifest =
      "apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: coder, labels: {a: b}}\nspec: {model: {default: tiny, threads: 2}}\n";
    const { ended, body } = await created(["-f", "FILE", "--model", "other"], manifest);
    assert.equal(ended.stdout, "coder: created\n");
    assert.deepEqual(body, {
      apiVersion: "berth.dev/v1alpha1",
      kind: "Slot",
      metadata: { name: "coder", labels: { a: "b" } },
      spec: { model: { default: "other", threads: 2 } },
    });
  });

  it("needs a name", async () => {
    const { ended } = await created(["-f", "FILE"], "model: {default: tiny}\n");
    assert.deepEqual(ended, {
      code: 2,
      stdout: "",
      stderr: "usage: the slot has no name: berth slot create NAME …\nsee `berth slot create --help`\n",
    });
  });

  it("names the line where a file cannot be read, and what to do", async () => {
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
    ] as const) {
      const { ended } = await created(["coder", "-f", "FILE"], text);
      assert.deepEqual(ended, { code: 1, stdout: "", stderr: `config.invalid: ${message}\n${next}\n` }, text);
    }
  });

  it("says why a file cannot be read", async () => {
    await using dir = await tempDir();
    const next = "give a file, or - for standard input";
    for (const [file, reason] of [
      [join(dir.path, "none.yaml"), "there is no such file"],
      [dir.path, "it is a directory"],
    ] as const) {
      const ended = await runBerth(["slot", "create", "coder", "-f", file]);
      assert.deepEqual(ended, { code: 1, stdout: "", stderr: `config.unreadable: ${file}: ${reason}\n${next}\n` });
    }
  });

  it("passes on refusals of the service", async () => {
    const refusal = failure("slot.already_exists", "a slot with this name exists");
    await using api = await apiDouble({
      "/api/slots": (response) => {
        response.statusCode = 409;
        response.end(JSON.stringify(refusal));
      },
    });
    assert.deepEqual(await runBerth(["slot", "create", "primary", "--model", "a"], { SVC_URL: api.url }), {
      code: 1,
      stdout: "",
      stderr: "slot.already_exists: a slot with this name exists\nsee `berth slot list`\n",
    });
  });
});

describe("berth slot delete", () => {
  it("deletes at once with --yes", async () => {
    await using api = await apiDouble({ "/api/slots/coder": (response) => response.writeHead(202).end() });
    const ended = await runBerth(["slot", "delete", "coder", "--yes"], { SVC_URL: api.url });
    assert.deepEqual(ended, { code: 0, stdout: "coder: deleted\n", stderr: "" });
    assert.deepEqual(api.asked, ["DELETE /api/slots/coder"]);
  });

  it("does nothing where no person can answer", async () => {
    await using api = await apiDouble({});
    assert.deepEqual(await runBerth(["slot", "delete", "coder"], { SVC_URL: api.url }), {
      code: 2,
      stdout: "",
      stderr: "usage: --yes is needed where nobody can be asked\nsee `berth slot delete --help`\n",
    });
    assert.deepEqual(api.asked, []);
  });
});
