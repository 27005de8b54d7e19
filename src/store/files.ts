import type { DesiredSource } from "./store.ts";
export interface FileSourceOptions {
  readonly configDir: string;
  readonly stateDir: string;
  readonly now?: () => Date;
  readonly resyncMs?: number;
}
export function openFileSource(options: FileSourceOptions): Promise<DesiredSource> {
  throw new Error(`not yet: ${options.configDir}`);
}
