"""What all devices of a family share; profiles take it over by ``extends``. Not profiles themselves."""
