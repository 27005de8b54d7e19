/** A larger file is not read: parsing it would block everything else. A module of its own: most commands need no more. */
export const manifestLimitBytes = 1024 ** 2;
