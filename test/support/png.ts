/** Width and height of a PNG; throws when it is none (https://www.w3.org/TR/png-3/, section 5.2). */
export function pngSize(bytes: Buffer): { readonly width: number; readonly height: number } {
  if (bytes.toString("latin1", 1, 4) !== "PNG" || bytes.toString("latin1", 12, 16) !== "IHDR")
    throw new Error("no PNG");
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}
