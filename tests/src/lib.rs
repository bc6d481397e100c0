//! What tests, fuzz targets and simulations across crates share.
