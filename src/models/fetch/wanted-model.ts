import type { ModelSpec, WantedFile } from "../../api/model.ts";
import type { PulledModel } from "../../api/pulled-model.ts";
import { FetchError } from "./fetch-error.ts";
import { parseSource } from "./source.ts";

/** A model with the files that a slot or request wants. */
export interface WantedModel {
  readonly ref: string;
  readonly files: readonly WantedFile[];
  /** The declared size of all files together. */
  readonly sizeBytes?: number;
  /** Whether the source was named over the public API: addresses of this machine are then refused. */
  readonly isOpen: boolean;
}

/** Every file of a Model, in order. */
export function filesOf({ files, source, sha256 }: ModelSpec): readonly WantedFile[] {
  if (files !== undefined) return files;
  return source === undefined ? [] : [{ source, ...(sha256 === undefined ? {} : { sha256 }) }];
}

/** The files that are fetched over the network. Throws FetchError for a source that cannot be fetched. */
export function remoteFiles(files: readonly WantedFile[]): readonly WantedFile[] {
  return files.filter(({ source }) => {
    if (!/^(?:flm|voice):/.test(source)) return parseSource(source).scheme !== "file";
    const message = `${source} cannot be fetched by this version: use a file:// source, or put the file into the models directory`;
    throw new FetchError("SourceRefused", message);
  });
}

/** Whether the fetched files are the wanted files. */
export function isWanted({ files: pulled }: PulledModel, files: readonly WantedFile[]): boolean {
  return (
    pulled.length === files.length &&
    files.every(({ source, sha256, as }, index) => {
      const file = pulled[index];
      const isSameName = as === undefined || as === file?.name;
      return source === file?.source && isSameName && (sha256 === undefined || sha256 === file.sha256);
    })
  );
}
