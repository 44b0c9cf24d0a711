lib: {
  listFilesRecursive =
    directory:
    lib.flatten (
      lib.mapAttrsToList (
        name: type:
        if type == "directory" then
          lib.filesystem.listFilesRecursive (directory + "/${name}")
        else
          directory + "/${name}"
      ) (lib.readDir directory)
    );
  pathType = lib.readFileType;
  pathIsDirectory = path: lib.pathExists path && lib.readFileType path == "directory";
  pathIsRegularFile = path: lib.pathExists path && lib.readFileType path == "regular";
}
