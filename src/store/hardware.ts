import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import {
  probeRequestSchema,
  publishedHardwareSchema,
  type ProbeRequest,
  type PublishedHardware,
} from "../api/hardware.ts";
import { knownPart } from "../api/known-part.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { JsonDirectory } from "../lib/json-directory.ts";
import { Subscribers } from "../lib/subscribers.ts";

/** `<state>/hardware/`: what the operator has found, and the last request for another look. Neither is deleted. */
export interface HardwareStore extends AsyncDisposable {
  found(): PublishedHardware | undefined;
  /** The request that no look has answered yet. */
  pending(): ProbeRequest | undefined;
  ask(request: ProbeRequest): Promise<void>;
  publish(found: PublishedHardware): Promise<void>;
  watch(onChange: () => void): Disposable;
}

/** Used by both sides: a gateway asks, the operator publishes. */
export async function openHardwareStore(stateDir: string): Promise<HardwareStore> {
  const path = join(stateDir, "hardware");
  await mkdir(path, { recursive: true });
  const subscribers = new Subscribers<[]>();
  const directory = await JsonDirectory.open<PublishedHardware | ProbeRequest>(path, {
    include: (file) => file === "found.json" || file === "request.json",
    parse: (value) => knownPart(publishedHardwareSchema, value) ?? probeRequestSchema.safeParse(value).data,
    onChange: () => subscribers.tell(),
  });
  const found = (): PublishedHardware | undefined => {
    const value = directory.get("found");
    return value !== undefined && "hardware" in value ? value : undefined;
  };
  const write = async (name: string, value: PublishedHardware | ProbeRequest): Promise<void> => {
    await writeFileAtomic(join(path, `${name}.json`), JSON.stringify(value), { fsync: false });
    await directory.scan();
  };
  return {
    found,
    pending() {
      const request = directory.get("request");
      return request !== undefined && "token" in request && request.token !== found()?.answers ? request : undefined;
    },
    ask: (request) => write("request", probeRequestSchema.parse(request)),
    publish: (value) => write("found", publishedHardwareSchema.parse(value)),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
