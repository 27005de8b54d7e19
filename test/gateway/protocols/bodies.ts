import { ApiError } from "../../../src/api/errors.ts";
import type { OwnItems } from "../../../src/gateway/protocols/kept-items.ts";
import { thrownBy } from "../../support/rejection.ts";

/** A body of these bytes, or of this as JSON. */
export const encode = (value: unknown): Buffer =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value));

export const decode = (body: Buffer): unknown => JSON.parse(body.toString());

/** Of a client that has asked nothing before. */
export const nothingKept: OwnItems = { keep: () => undefined, find: () => undefined };

export const failureOf = (act: () => unknown): ApiError => thrownBy(act, ApiError);
