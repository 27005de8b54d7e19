/** Larger pictures are scaled down: models see no more, and a request must stay below the body limit. */
const longestSide = 1536;
const largestFileBytes = 50 * 1024 * 1024;

/** A file as a `data:` address that a model reads. Throws where it is no picture, or too large. */
export async function pictureOf(file: File): Promise<string> {
  if (!file.type.startsWith("image/")) throw new Error(`${file.name} is neither a picture nor a text.`);
  if (file.size > largestFileBytes) throw new Error(`${file.name} is larger than 50 MiB; attach a smaller picture.`);
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} cannot be read as a picture. Attach a PNG, a JPEG or a WebP.`);
  }
  const scale = Math.min(1, longestSide / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas.toDataURL(file.type === "image/png" ? "image/png" : "image/jpeg", 0.9);
}
