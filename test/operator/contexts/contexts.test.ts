import assert from "node:assert/strict";
import { stat, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Workload } from "../../../src/api/workload.ts";
import type { Fault } from "../../doubles/llama-places.ts";
import { model } from "../../engines/fixture.ts";
import { perToken } from "../../support/context-cost.ts";
import { Desk, keeping, never } from "./desk.ts";

const hour = 3600;

describe("the context that an engine saves before it is stopped", () => {
  it("is read once by the next engine of the same kind, place by place, in files that nobody else may read", async () => {
    await using desk = await Desk.open();
    await desk.save([500, 0, 90, 10]);
    const [file = "", other = ""] = await desk.files();
    assert.equal((await desk.files()).length, 2, "too short a prompt is not worth a file");
    assert.ok(other.endsWith("-2.bin"), other);
    const directory = "contexts/primary/main";
    assert.deepEqual(
      await desk.modes("contexts", "contexts/primary", directory, `${directory}.json`, `${directory}/${file}`),
      ["700", "700", "700", "600", "600"],
    );
    desk.pass(60);
    assert.deepEqual((await desk.restore()).tokens, [500, 0, 90, 0]);
    assert.deepEqual(await desk.files(), []);
    assert.deepEqual([desk.latest?.result, desk.latest?.tokens], ["restored", 590]);
    assert.match(desk.latest?.message ?? "", /^590 tokens, \d+ KiB, saved 1m0s before$/);
    assert.deepEqual((await desk.restore()).calls, [], "it was used");
  });

  it("is saved for idle places alone, the longest first", async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([100, 900, 300]);
    engine.tokens[2] = undefined;
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual(engine.calls, ["save 1", "save 0"]);
  });

  const others: readonly (readonly [string, (desk: Desk) => Partial<Workload>])[] = [
    ["another file of the model", (desk) => (desk.models.set("tiny", model({ fingerprint: "1:9" })), {})],
    [
      "another digest of the model",
      (desk) => (desk.models.set("tiny", model({ fingerprint: "1:1", sha256: "0".repeat(64) })), {}),
    ],
    ["other settings", () => ({ hash: "edited" })],
    [
      "another derived setting",
      (desk) => ({ command: ["/bin/sh", "--ctx-size", "1", "--slot-save-path", desk.directory(), "--model", "/tiny"] }),
    ],
    [
      "another engine",
      (desk) => ({ command: ["/bin/cat", "--port", "8081", "--slot-save-path", desk.directory(), "--model", "/tiny"] }),
    ],
    ["another environment", () => ({ env: { LLAMA_ARG_FIT: "off" } })],
    // Its files were not synced.
    ["another boot of the machine", (desk) => ((desk.boot = "boot-2"), desk.successor(), {})],
  ];
  for (const [what, change] of others) {
    it(`is deleted unread for ${what}`, async () => {
      await using desk = await Desk.open();
      await desk.save([500]);
      assert.equal((await desk.files()).length, 1);
      assert.deepEqual((await desk.restore(change(desk))).calls, []);
      assert.deepEqual(await desk.files(), []);
    });
  }

  it("may be read on another port and with other threads", async () => {
    await using desk = await Desk.open();
    await desk.save([500]);
    const flags = ["--port", "8099", "--threads", "7", "--slot-save-path", desk.directory(), "--model", "/tiny"];
    const env = { HOST: "127.0.0.1", PORT: "8099" };
    const second = await desk.restore({ command: ["/bin/sh", ...flags], port: 8099, env });
    assert.equal(second.tokens[0], 500);
  });

  it("waits while another model is held, within the common limit: the older context is deleted first", async () => {
    await using desk = await Desk.open();
    const spec = keeping({ maxBytes: 6000 });
    await desk.save([300], { spec });
    desk.pass(1);
    await desk.save([200], { spec, ref: "big" });
    assert.equal((await desk.files()).length, 2);
    desk.pass(1);
    const again = await desk.start([0]);
    await desk.contexts.restore(again.process, spec, never);
    assert.deepEqual(again.engine.tokens, [300]);
    again.engine.tokens[0] = 500;
    await desk.contexts.save(again.process, spec, 10_000);
    assert.equal((await desk.files()).length, 1, "5040 of 6000 bytes: the 2040 of the other model have no room");
    assert.equal(desk.latest?.tokens, 500);
  });

  it("is not written where the model's shape says that it would exceed the limit, or fill the disk", async () => {
    await using desk = await Desk.open();
    desk.models.set("tiny", model({ fingerprint: "1:1", contextCost: perToken(10) }));
    assert.deepEqual((await desk.save([500], { spec: keeping({ maxBytes: 4000 }) })).calls, []);
    assert.equal(desk.latest?.message, "it was not saved: a context of about 5 KiB has no room");
    desk.reserveBytes = 2 ** 60;
    desk.successor();
    assert.deepEqual((await desk.save([500])).calls, []);
  });

  it("is deleted where it turns out larger than the limit, and where it is too old", async () => {
    await using desk = await Desk.open();
    await desk.save([500], { spec: keeping({ maxBytes: 4000 }) });
    assert.deepEqual(await desk.files(), []);
    assert.match(desk.latest?.message ?? "", /more than its limit of 4 KiB/);
    const spec = keeping({ maxAgeSeconds: hour });
    await desk.save([500], { spec });
    desk.pass(hour + 1);
    assert.deepEqual([(await desk.restore({ spec })).calls, await desk.files()], [[], []]);
  });

  it("never delays an unload: the save of an engine that does not finish is abandoned", async ({ mock }) => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500, 400]);
    // The time is over once the engine has written a part, however long that takes.
    const late = new AbortController();
    const limits = mock.method(AbortSignal, "timeout", () => late.signal).mock;
    engine.saveFault = async (_response, file) => {
      await writeFile(file, "part");
      late.abort(new DOMException("too late", "TimeoutError"));
    };
    await desk.contexts.save(process, keeping(), 50);
    assert.deepEqual(
      limits.calls.map((call) => call.arguments),
      [[50]],
    );
    assert.deepEqual(await desk.files(), []);
    assert.equal(desk.latest?.message, "it was not saved: it took more than 0.05s");
  });

  const faults: readonly (readonly [string, message: RegExp, Fault])[] = [
    [
      "the disk is full",
      /^it was not saved: Unable to save slot$/,
      async (response, file) => {
        await writeFile(file, "part");
        response.writeHead(500, { "content-type": "application/json" });
        response.end('{"error":{"code":500,"message":"Unable to save slot","type":"server_error"}}');
      },
    ],
    [
      "the engine is killed while it writes",
      /^it was not saved: /,
      async (response, file) => {
        await writeFile(file, "part");
        response.destroy();
      },
    ],
    [
      "the file has another size than the engine says",
      /^it was not saved: the engine wrote another size than 5040 bytes$/,
      async (response, file) => {
        await writeFile(file, "part");
        response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
      },
    ],
  ];
  for (const [what, message, fault] of faults) {
    it(`is dropped where ${what}`, async () => {
      await using desk = await Desk.open();
      await desk.save([500], { fault });
      assert.deepEqual([await desk.files(), desk.latest?.result], [[], "dropped"]);
      assert.match(desk.latest?.message ?? "", message);
    });
  }

  it("follows no link that an engine has put in its place: the target is left alone", async () => {
    await using desk = await Desk.open();
    const target = join(desk.stateDir, "precious");
    await writeFile(target, "x".repeat(100), { mode: 0o644 });
    const fault: Fault = async (response, file) => {
      await symlink(target, file);
      response.writeHead(200).end('{"n_saved":500,"n_written":100}');
    };
    await desk.save([500], { fault });
    assert.deepEqual([await desk.files(), desk.latest?.result], [[], "dropped"]);
    assert.deepEqual([await desk.modes("precious"), (await stat(target)).size], [["644"], 100]);
  });

  it("keeps the places that were whole when a later one fails", async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500, 400]);
    engine.saveFault = async (response, file) => {
      engine.saveFault = (later) => void later.destroy();
      await writeFile(file, "x".repeat(100));
      response.writeHead(200).end('{"n_saved":500,"n_written":100}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual([(await desk.files()).length, desk.latest?.tokens], [1, 500]);
  });

  it("is deleted when the operator is killed while the engine writes: without a record a file is rubbish", async () => {
    await using desk = await Desk.open();
    const { process } = await desk.start([500]);
    await writeFile(join(desk.directory(), "half-0.bin"), "part");
    await desk.successor().sweep(() => keeping());
    assert.deepEqual(await desk.files(), []);
    await desk.contexts.save(process, keeping(), 10_000);
    assert.equal((await desk.files()).length, 1, "the next operator saves of the same engine");
  });
});

describe("a saved context that does not hold", () => {
  const spoil: readonly (readonly [string, (path: string) => Promise<void>])[] = [
    ["a file that was cut", async (path) => await truncate(path, 100)],
    ["a file that was written again", async (path) => await writeFile(path, "500".padEnd(5040))],
    ["a file with another time", async (path) => await utimes(path, 1, 1)],
  ];
  for (const [what, change] of spoil) {
    it(`is not given to an engine: ${what}, on which llama-server would abort`, async () => {
      await using desk = await Desk.open();
      await desk.save([500]);
      const [file = ""] = await desk.files();
      await change(join(desk.directory(), file));
      assert.deepEqual([(await desk.restore()).calls, await desk.files()], [[], []]);
      assert.equal(desk.latest?.message, "it was not restored: its file is not as it was saved");
    });
  }

  it("is emptied where the engine counts other tokens than were saved", async () => {
    await using desk = await Desk.open();
    await desk.save([500]);
    const fault: Fault = (response) => void response.writeHead(200).end('{"n_restored":499,"n_read":5040}');
    assert.deepEqual((await desk.restore({ fault })).calls, ["restore 0", "erase 0"]);
    assert.match(desk.latest?.message ?? "", /the engine counts 499 tokens, and saved 500/);
  });

  const faults: readonly (readonly [string, Fault])[] = [
    ["refuses it", (response) => void response.writeHead(400).end('{"error":{"message":"Unable to restore slot"}}')],
    ["crashes on it", (response) => void response.destroy()],
  ];
  for (const [what, fault] of faults) {
    it(`is dropped where the engine ${what}: the next engine does not get it`, async () => {
      await using desk = await Desk.open();
      await desk.save([500]);
      await desk.restore({ fault });
      assert.deepEqual([await desk.files(), desk.latest?.result], [[], "dropped"]);
      assert.deepEqual((await desk.restore()).calls, []);
    });
  }

  it("is not given again when the operator was killed while an engine read it", async () => {
    await using desk = await Desk.open();
    await desk.save([500]);
    const { engine, process } = await desk.start([0]);
    const reading = Promise.withResolvers<void>();
    engine.restoreFault = () => reading.resolve();
    const stopping = new AbortController();
    const restoring = desk.contexts.restore(process, keeping(), stopping.signal);
    await reading.promise;
    await desk.successor().restore(process, keeping(), never);
    assert.deepEqual(engine.calls, ["restore 0"]);
    stopping.abort();
    await restoring;
  });
});
