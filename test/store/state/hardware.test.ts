import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openHardwareStore } from "../../../src/store/state/hardware.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const hardware = withSuggestions(pcFacts);
const request = { schema: 1, token: "a", requestedAt: "2026-01-01T00:00:00.000Z" } as const;

describe("the record of the hardware", () => {
  it("is empty before the first probe and the first request", async () => {
    await using directory = await tempDir();
    await using store = await openHardwareStore(documentsInFiles(directory.path));
    assert.deepEqual([store.found(), store.pending()], [undefined, undefined]);
  });

  it("passes between processes: a request is pending until a probe answers it", async () => {
    await using directory = await tempDir();
    await using gateway = await openHardwareStore(documentsInFiles(directory.path));
    await using operator = await openHardwareStore(documentsInFiles(directory.path));
    let told = 0;
    using _watching = operator.watch(() => void (told += 1));
    await gateway.requestProbe(request);
    assert.deepEqual(gateway.pending(), request);
    await until("the operator has heard", () => told > 0 && operator.pending()?.token === "a");
    await operator.publish({ schema: 1, hardware });
    assert.deepEqual(operator.pending(), request, "a look from before answers nothing");
    await operator.publish({ schema: 1, answers: "a", hardware });
    await until("the gateway has seen it", () => gateway.pending() === undefined);
    assert.deepEqual(gateway.found(), { schema: 1, answers: "a", hardware });
    await gateway.requestProbe({ ...request, token: "b" });
    assert.equal(gateway.pending()?.token, "b");
  });

  it("keeps the last good answer where another version or a torn write is in its place", async () => {
    await using directory = await tempDir();
    await using store = await openHardwareStore(documentsInFiles(directory.path));
    await store.publish({ schema: 1, hardware });
    for (const text of [JSON.stringify({ schema: 2, hardware }), '{"schema":1,'])
      await writeFile(join(directory.path, "hardware", "found.json"), text);
    await store.requestProbe(request);
    assert.deepEqual([store.found()?.hardware, store.pending()], [hardware, request]);
    await using another = await openHardwareStore(documentsInFiles(directory.path));
    assert.equal(another.found(), undefined);
  });
});
