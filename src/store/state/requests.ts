import { rmSync } from "node:fs";
import { join } from "node:path";
import { slotRequestSchema, type SlotRequest } from "../../api/status.ts";
import { writeInKeptDirectory } from "../../lib/atomic-file.ts";
import { JsonDirectory } from "../../lib/json-directory.ts";
import { readPlainJson } from "../../lib/small-file.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { RequestStore } from "../store.ts";

/** Restart, load, unload and swap requests, one file per slot and kind; they survive a power cut. */
export async function openRequestStore(stateDir: string): Promise<RequestStore> {
  const path = join(stateDir, "requests");
  const subscribers = new Subscribers<[slot: string]>();
  const directory = await JsonDirectory.open<SlotRequest>(path, {
    parse: (value) => slotRequestSchema.safeParse(value).data,
    onChange: (names) => {
      const slots = new Set(names.map((name) => name.slice(0, name.lastIndexOf("."))));
      for (const slot of slots) subscribers.notify(slot);
    },
  });
  const fileOf = ({ slot, kind }: Pick<SlotRequest, "slot" | "kind">): string => join(path, `${slot}.${kind}.json`);
  return {
    list: (slot) => [...directory.values()].map(([, request]) => request).filter((request) => request.slot === slot),
    async put(request) {
      await writeInKeptDirectory(fileOf(request), JSON.stringify(slotRequestSchema.parse(request)), { fsync: true });
      await directory.scan();
    },
    async remove(slot, kind, token) {
      const file = fileOf({ slot, kind });
      // In one turn: another process's request at any other moment stays.
      if (token === undefined || tokenIn(file) === token) rmSync(file, { force: true });
      await directory.scan();
    },
    watch: (onSlot) => subscribers.add(onSlot),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** Undefined without a request. */
function tokenIn(file: string): string | undefined {
  return slotRequestSchema.safeParse(readPlainJson(file)).data?.token;
}
