import type { PublishedStore, Publisher } from "./store.ts";
export function openPublished(stateDir: string, options: { resyncMs?: number } = {}): Promise<PublishedStore> {
  throw new Error(`not yet: ${stateDir} ${options.resyncMs}`);
}
export function openPublisher(stateDir: string): Promise<Publisher> {
  throw new Error(`not yet: ${stateDir}`);
}
