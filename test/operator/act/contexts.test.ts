import assert from "node:assert/strict";
import { readdir, stat, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { completeSlot, slotSpecSchema } from "../../../src/api/slot.ts";
import type { Workload } from "../../../src/api/workload.ts";
import type { LlamaPlaces } from "../../doubles/llama-places.ts";
import { model } from "../../engines/fixture.ts";
import { perToken } from "../../support/context-cost.ts";
import { Desk, keeping, never } from "./desk.ts";

const hour = 3600;

describe("the context that an engine saves before it is stopped", () => {
  it("is read once by the next engine of the same kind, place by place, in files that nobody else may read", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500, 0, 90, 10]);
    await desk.contexts.save(first.process, keeping(), 10_000);
    const [file = "", other = ""] = await desk.files();
    assert.equal((await desk.files()).length, 2, "too short a prompt is not worth a file");
    const modes = await Promise.all(
      [
        "contexts",
        "contexts/primary",
        "contexts/primary/main",
        "contexts/primary/main.json",
        `contexts/primary/main/${file}`,
      ].map(async (path) => ((await stat(join(desk.stateDir, path))).mode & 0o777).toString(8)),
    );
    assert.deepEqual(modes, ["700", "700", "700", "600", "600"]);
    assert.ok(other.endsWith("-2.bin"), other);
    desk.now = new Date(desk.now.getTime() + 60_000);
    const second = await desk.start([0, 0, 0, 0]);
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual(second.engine.tokens, [500, 0, 90, 0]);
    assert.deepEqual(await desk.files(), []);
    const { result, tokens, message } = desk.contexts.latest("primary") ?? {};
    assert.deepEqual([result, tokens], ["restored", 590]);
    assert.match(message ?? "", /^590 tokens, \d+ KiB, saved 1m0s before$/);
    const third = await desk.start([0, 0, 0, 0]);
    await desk.contexts.restore(third.process, keeping(), never);
    assert.deepEqual(third.engine.calls, [], "it was used");
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
  ];
  for (const [what, change] of others) {
    it(`is deleted unread for ${what}`, async () => {
      await using desk = await Desk.open();
      const first = await desk.start([500]);
      await desk.contexts.save(first.process, keeping(), 10_000);
      assert.equal((await desk.files()).length, 1);
      const second = await desk.start([0], change(desk));
      assert.deepEqual(await desk.files(), []);
      await desk.contexts.restore(second.process, keeping(), never);
      assert.deepEqual(second.engine.calls, []);
    });
  }

  it("may be read on another port and with other threads", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    await desk.contexts.save(first.process, keeping(), 10_000);
    const command = [
      "/bin/sh",
      "--port",
      "8099",
      "--threads",
      "7",
      "--slot-save-path",
      desk.directory(),
      "--model",
      "/tiny",
    ];
    const second = await desk.start([0], { command, port: 8099, env: { HOST: "127.0.0.1", PORT: "8099" } });
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual(second.engine.tokens, [500]);
  });

  it("waits while another model is held, within the common limit: the older context is deleted first", async () => {
    await using desk = await Desk.open();
    const spec = keeping({ maxBytes: 6000 });
    const one = await desk.start([300]);
    await desk.contexts.save(one.process, spec, 10_000);
    desk.now = new Date(desk.now.getTime() + 1000);
    const two = await desk.start([200], { ref: "big" });
    await desk.contexts.save(two.process, spec, 10_000);
    assert.equal((await desk.files()).length, 2);
    desk.now = new Date(desk.now.getTime() + 1000);
    const again = await desk.start([0]);
    await desk.contexts.restore(again.process, spec, never);
    assert.deepEqual(again.engine.tokens, [300]);
    again.engine.tokens[0] = 500;
    await desk.contexts.save(again.process, spec, 10_000);
    assert.equal((await desk.files()).length, 1, "5040 of 6000 bytes: the 2040 of the other model have no room");
    assert.deepEqual(desk.contexts.latest("primary")?.tokens, 500);
  });

  it("is not written where the model's shape says that it would exceed the limit, or fill the disk", async () => {
    await using desk = await Desk.open();
    desk.models.set("tiny", model({ fingerprint: "1:1", contextCost: perToken(10) }));
    const { engine, process } = await desk.start([500]);
    await desk.contexts.save(process, keeping({ maxBytes: 4000 }), 10_000);
    assert.deepEqual(engine.calls, []);
    assert.match(
      desk.contexts.latest("primary")?.message ?? "",
      /^it was not saved: a context of about 5 KiB has no room$/,
    );
    desk.reserveBytes = 2 ** 60;
    await desk.successor().save(process, keeping(), 10_000);
    assert.deepEqual(engine.calls, []);
  });

  it("is deleted where it turns out larger than the limit, and where it is too old", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    await desk.contexts.save(first.process, keeping({ maxBytes: 4000 }), 10_000);
    assert.deepEqual(await desk.files(), []);
    assert.match(desk.contexts.latest("primary")?.message ?? "", /more than its limit of 4 KiB/);
    await desk.contexts.save(first.process, keeping({ maxAgeSeconds: hour }), 10_000);
    desk.now = new Date(desk.now.getTime() + hour * 1000 + 1);
    const second = await desk.start([0]);
    await desk.contexts.restore(second.process, keeping({ maxAgeSeconds: hour }), never);
    assert.deepEqual([second.engine.calls, await desk.files()], [[], []]);
  });

  it("never delays an unload: the save of an engine that does not finish is abandoned", async (t) => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500, 400]);
    const saving = Promise.withResolvers<void>();
    engine.saveFault = async (_response, file) => {
      await writeFile(file, "part");
      saving.resolve();
    };
    const limit = new AbortController();
    const timeout = t.mock.method(AbortSignal, "timeout", () => limit.signal);
    const saved = desk.contexts.save(process, keeping(), 300);
    await saving.promise;
    limit.abort(new DOMException("the time is over", "TimeoutError"));
    await saved;
    const limitsMs = timeout.mock.calls.map((call) => call.arguments[0]);
    assert.deepEqual(limitsMs, [300]);
    assert.deepEqual([engine.calls, await desk.files()], [["save 0"], []]);
    assert.match(desk.contexts.latest("primary")?.message ?? "", /^it was not saved: it took more than 0\.3s$/);
  });

  it("is dropped where the disk is full, or the engine is killed while it writes", async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500]);
    engine.saveFault = async (response, file) => {
      await writeFile(file, "part");
      response.writeHead(500, { "content-type": "application/json" });
      response.end('{"error":{"code":500,"message":"Unable to save slot","type":"server_error"}}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual(await desk.files(), []);
    assert.equal(desk.contexts.latest("primary")?.message, "it was not saved: Unable to save slot");
    engine.saveFault = async (response, file) => {
      await writeFile(file, "part");
      response.destroy();
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual([await desk.files(), desk.contexts.latest("primary")?.result], [[], "dropped"]);
    // What it said that it wrote is not there.
    engine.saveFault = async (response, file) => {
      await writeFile(file, "part");
      response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual([await desk.files(), desk.contexts.latest("primary")?.result], [[], "dropped"]);
  });

  it("follows no link that an engine has put in its place: the target is left alone", async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500]);
    const target = join(desk.stateDir, "precious");
    await writeFile(target, "x".repeat(100), { mode: 0o644 });
    engine.saveFault = async (response, file) => {
      await symlink(target, file);
      response.writeHead(200).end('{"n_saved":500,"n_written":100}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual([await desk.files(), desk.contexts.latest("primary")?.result], [[], "dropped"]);
    assert.deepEqual([(await stat(target)).mode & 0o777, (await stat(target)).size], [0o644, 100]);
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
    assert.deepEqual([(await desk.files()).length, desk.contexts.latest("primary")?.tokens], [1, 500]);
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

  it("is dropped after a reboot of the machine: its files were not synced", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    await desk.contexts.save(first.process, keeping(), 10_000);
    desk.boot = "boot-2";
    desk.successor();
    const second = await desk.start([0]);
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual([second.engine.calls, await desk.files()], [[], []]);
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
      const first = await desk.start([500]);
      await desk.contexts.save(first.process, keeping(), 10_000);
      const [file = ""] = await desk.files();
      await change(join(desk.directory(), file));
      const second = await desk.start([0]);
      await desk.contexts.restore(second.process, keeping(), never);
      assert.deepEqual([second.engine.calls, await desk.files()], [[], []]);
      assert.equal(desk.contexts.latest("primary")?.message, "it was not restored: its file is not as it was saved");
    });
  }

  it("is emptied where the engine counts other tokens than were saved", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    await desk.contexts.save(first.process, keeping(), 10_000);
    const second = await desk.start([0]);
    second.engine.restoreFault = (response) => void response.writeHead(200).end('{"n_restored":499,"n_read":5040}');
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual(second.engine.calls, ["restore 0", "erase 0"]);
    assert.match(desk.contexts.latest("primary")?.message ?? "", /the engine counts 499 tokens, and saved 500/);
  });

  it("is dropped where the engine refuses it, and where it crashes the engine: the next engine does not get it", async () => {
    for (const fault of [
      (response) => void response.writeHead(400).end('{"error":{"message":"Unable to restore slot"}}'),
      (response) => void response.destroy(),
    ] satisfies LlamaPlaces["restoreFault"][]) {
      await using desk = await Desk.open();
      const first = await desk.start([500]);
      await desk.contexts.save(first.process, keeping(), 10_000);
      const second = await desk.start([0]);
      second.engine.restoreFault = fault;
      await desk.contexts.restore(second.process, keeping(), never);
      assert.deepEqual([await desk.files(), desk.contexts.latest("primary")?.result], [[], "dropped"]);
      const third = await desk.start([0]);
      await desk.contexts.restore(third.process, keeping(), never);
      assert.deepEqual(third.engine.calls, []);
    }
  });

  it("is not given again when the operator was killed while an engine read it", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    await desk.contexts.save(first.process, keeping(), 10_000);
    const second = await desk.start([0]);
    const reading = Promise.withResolvers<void>();
    second.engine.restoreFault = () => reading.resolve();
    const stopping = new AbortController();
    const restoring = desk.contexts.restore(second.process, keeping(), stopping.signal);
    await reading.promise;
    const next = desk.successor();
    await next.restore(second.process, keeping(), never);
    assert.deepEqual(second.engine.calls, ["restore 0"]);
    stopping.abort();
    await restoring;
  });
});

describe("the files of saved contexts", () => {
  it("belong to one replica each, which share the limit", async () => {
    await using desk = await Desk.open();
    const spec = keeping({ maxBytes: 10_000 }, { replicas: 2 });
    const one = await desk.start([400]);
    const two = await desk.start([600], { ordinal: 1 });
    await desk.contexts.save(one.process, spec, 10_000);
    await desk.contexts.save(two.process, spec, 10_000);
    assert.deepEqual(
      [(await desk.files(0)).length, (await desk.files(1)).length],
      [1, 0],
      "6040 bytes are more than half",
    );
    two.engine.tokens[0] = 300;
    await desk.contexts.save(two.process, spec, 10_000);
    const again = await desk.start([0], { ordinal: 1 });
    await desk.contexts.restore(again.process, spec, never);
    assert.deepEqual([again.engine.tokens, (await desk.files(0)).length], [[300], 1]);
  });

  it("go with the slot, with the setting, with a replica that is not wanted, and with their time", async () => {
    await using desk = await Desk.open();
    const save = async (): Promise<void> => {
      const { process } = await desk.start([500]);
      await desk.contexts.save(process, keeping(), 10_000);
      const replica = await desk.start([500], { ordinal: 1 });
      await desk.contexts.save(replica.process, keeping({}, { replicas: 2 }), 10_000);
    };
    const left = async (): Promise<readonly string[]> =>
      await readdir(join(desk.stateDir, "contexts/primary")).catch(() => []);
    await save();
    await desk.contexts.sweep(() => keeping());
    assert.deepEqual((await left()).toSorted(), ["main", "main.json"]);
    await desk.contexts.sweep(() => completeSlot("primary", slotSpecSchema.parse({ model: { default: "tiny" } })));
    assert.deepEqual(await left(), []);
    await save();
    await desk.contexts.sweep(() => undefined);
    assert.deepEqual(await left(), []);
    await save();
    await desk.contexts.forget("primary");
    assert.deepEqual(await left(), []);
    await save();
    desk.now = new Date(desk.now.getTime() + 25 * hour * 1000);
    await desk.contexts.sweep(() => keeping({}, { replicas: 2 }));
    assert.deepEqual([await desk.files(0), await desk.files(1)], [[], []]);
  });

  it("are left out where the model was removed meanwhile: no engine starts with a directory that is not there", async () => {
    await using desk = await Desk.open();
    desk.models.clear();
    const { started } = await desk.start([0]).catch(() => ({ started: undefined }));
    assert.deepEqual(started?.command, ["/bin/sh", "--port", "8081", "--model", "/tiny"]);
  });

  it("are left out where the directory cannot be made: the engine starts all the same", async () => {
    await using desk = await Desk.open();
    await writeFile(join(desk.stateDir, "contexts"), "in the way");
    const { started } = await desk.start([0]).catch(() => ({ started: undefined }));
    assert.deepEqual(started?.command, ["/bin/sh", "--port", "8081", "--model", "/tiny"]);
    assert.match(desk.log.join(), /starts without a place for its context/);
  });
});
